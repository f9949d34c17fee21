//! What was sought besides the remote: names that the sandbox does not know, addresses at which nobody listens.

use maud::{Markup, html};

use super::cast::{Cast, Lane};
use super::tell::{Drawn, Mark, Told, told};
use crate::journal::{Event, Line, hosts_sought};
use crate::report::spell_sought;

/// So many of them are told of one trial.
const MOST: usize = 30;

/// A line for each.
pub(super) fn lines(lines: &[Line]) -> Vec<String> {
    let sought = hosts_sought(lines.iter().map(|line| (line.seq, &line.event)));
    spell_sought(&sought, MOST)
}

pub(super) fn section(lines: &[String]) -> Markup {
    html! {
        ul.sought {
            @for line in lines { li { (super::verdict::with_code(line)) } }
        }
    }
}

pub(super) fn about_hosts(event: &Event, line: &Line, cast: &Cast) -> Option<Told> {
    Some(match event {
        Event::HostSought { by, .. } => {
            let sought = hosts_sought([(line.seq, event)]).into_iter().next()?;
            let times = match sought.times {
                1 => String::new(),
                times => format!(", {times} times more"),
            };
            let of_asker = by
                .as_ref()
                .map_or(Lane::Server, |asker| cast.lane(asker.pid));
            told(
                Drawn::At(of_asker, Mark::Refused),
                format!("{}: {}{times}", sought.deed(), sought.came_of_it()),
            )
        }
        Event::HostsLeftOut { times } => told(
            Drawn::At(Lane::Server, Mark::Refused),
            format!("{times} more attempts to reach other hosts"),
        ),
        _ => return None,
    })
}
