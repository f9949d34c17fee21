//! Reads the long files of a bundle an entry at a time.

use std::fmt;
use std::io::{BufReader, Read as _};
use std::marker::PhantomData;
use std::path::Path;

use serde::Deserialize;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

use crate::journal::regular;

/// The most of a file that is read, in bytes; the manifest of ten thousand trials has less.
const LARGEST: u64 = 256 * 1024 * 1024;

/// What a reader of an object's fields does with the field of this name: reads its value from where it stands, or leaves
/// it, to be kept as a value.
pub(super) trait Fields<'de> {
    /// Whether the field was taken. `map` stands at its value.
    fn take<M: MapAccess<'de>>(&mut self, name: &str, map: &mut M) -> Result<bool, M::Error>;
}

/// Reads a file that holds one JSON object. Returns the fields that were not taken.
pub(super) fn read<F: for<'de> Fields<'de>>(
    file: &Path,
    fields: &mut F,
) -> Result<Map<String, Value>, String> {
    let open = regular::open(file).map_err(|error| format!("it cannot be read: {error}"))?;
    let mut reader = serde_json::Deserializer::from_reader(BufReader::new(open.take(LARGEST)));
    let read = reader.deserialize_map(Object(fields));
    let rest = read.map_err(|error| format!("it cannot be read: {error}"))?;
    reader
        .end()
        .map_err(|error| format!("it goes on after its end: {error}"))?;
    Ok(rest)
}

struct Object<'f, F>(&'f mut F);

impl<'de, F: Fields<'de>> Visitor<'de> for Object<'_, F> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut names = std::collections::BTreeSet::new();
        let mut rest = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            // Other readers take the first of two, or the last.
            if !names.insert(name.clone()) {
                return Err(M::Error::custom(format!("`{name}` stands in it twice")));
            }
            if !self.0.take(&name, &mut map)? {
                rest.insert(name, map.next_value()?);
            }
        }
        Ok(rest)
    }
}

/// The entries of an object, one after the other.
pub(super) struct Entries<T, S>(S, PhantomData<T>);

impl<T: DeserializeOwned, S: FnMut(String, T)> Entries<T, S> {
    pub fn to(see: S) -> Self {
        Self(see, PhantomData)
    }
}

impl<'de, T: Deserialize<'de>, S: FnMut(String, T)> DeserializeSeed<'de> for Entries<T, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, T: Deserialize<'de>, S: FnMut(String, T)> Visitor<'de> for Entries<T, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<(), M::Error> {
        while let Some((key, value)) = map.next_entry()? {
            (self.0)(key, value);
        }
        Ok(())
    }
}

/// The items of an array, one after the other.
pub(super) struct Items<T, S>(S, PhantomData<T>);

impl<T: DeserializeOwned, S: FnMut(T)> Items<T, S> {
    pub fn to(see: S) -> Self {
        Self(see, PhantomData)
    }
}

impl<'de, T: Deserialize<'de>, S: FnMut(T)> DeserializeSeed<'de> for Items<T, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>, S: FnMut(T)> Visitor<'de> for Items<T, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element()? {
            (self.0)(item);
        }
        Ok(())
    }
}
