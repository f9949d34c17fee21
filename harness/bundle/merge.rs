pub struct Merged;
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct MergeError;
pub fn merge() -> Result<Merged, MergeError> {
    Err(MergeError)
}
