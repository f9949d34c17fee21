//! The tools of a server, asked for by the client.
//!
//! Past the library's own list, which it may answer from what it has kept: each request here is one on the wire.

use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, Extensions, InitializeRequestParams, ListToolsRequest, ListToolsRequestMethod,
    ListToolsResult, PaginatedRequestParams, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RunningService, ServiceError};

use super::message::Listing;
use crate::journal::excerpt;

/// For each answer. A server that has been shaken hands with answers in milliseconds; many never do, and are waited for.
const WITHIN: Duration = Duration::from_secs(5);

/// A list that leads on for ever is left.
const MOST_PAGES: usize = 50;

/// Names beyond these are not kept.
const MOST_TOOLS: usize = 1000;

/// Bytes of a name that are kept.
const LONGEST_NAME: usize = 128;

type Service = RunningService<RoleClient, InitializeRequestParams>;

/// Asks for all tools, and then so many times for the first page that it was asked `times` times. The names of the tools.
pub(super) async fn list(service: &Service, times: u32) -> (Vec<String>, Listing) {
    let listed = all(service).await;
    for _ in 1..times {
        // A server that fails here fails at its calls, where it is seen.
        if listed.1 == Listing::Unanswered {
            let _ = send(service, None).await;
        } else {
            let _ = page(service, None).await;
        }
    }
    listed
}

async fn all(service: &Service) -> (Vec<String>, Listing) {
    let mut tools = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let page = match page(service, cursor).await {
            Ok(page) => page,
            Err(listing) => return (tools, listing),
        };
        for tool in page.tools {
            if tools.len() == MOST_TOOLS {
                return (tools, Listing::Part);
            }
            tools.push(excerpt(&tool.name, LONGEST_NAME));
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return (tools, Listing::Whole);
        }
    }
    (tools, Listing::Part)
}

async fn page(service: &Service, cursor: Option<String>) -> Result<ListToolsResult, Listing> {
    let answer = async { send(service, cursor).await?.await_response().await };
    match tokio::time::timeout(WITHIN, answer).await {
        Ok(Ok(ServerResult::ListToolsResult(page))) => Ok(page),
        Ok(_) => Err(Listing::Refused),
        Err(_) => Err(Listing::Unanswered),
    }
}

async fn send(
    service: &Service,
    cursor: Option<String>,
) -> Result<RequestHandle<RoleClient>, ServiceError> {
    let params = PaginatedRequestParams::default().with_cursor(cursor);
    let request = ListToolsRequest {
        method: ListToolsRequestMethod,
        params: params.cursor.is_some().then_some(params),
        extensions: Extensions::default(),
    };
    let request = ClientRequest::ListToolsRequest(request);
    let options = PeerRequestOptions::no_options();
    service.send_request_with_option(request, options).await
}
