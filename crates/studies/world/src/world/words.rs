//! Words on the control network: connections come and go, words arrive in order or wait until the network lets them through, and an end that
//! hears nothing for too long gives up.

use super::{Event, World};
use crate::client::Client;
use crate::connection::{Connection, ConnectionId, KEEP_ALIVE, Message};
use crate::fabric::{Kind, Place};
use crate::machine::Process;
use crate::store::{StoreReply, StoreRequest};
use quincunx_units::{Duration, Instant};

/// From a machine to another.
const SHORTEST: Duration = Duration::from_micros(150);
const LONGEST: Duration = Duration::from_micros(900);

/// How soon words come through that had to wait: senders try again less and less often.
const AGAIN: Duration = Duration::from_millis(800);

/// How long a store takes that is slow.
const SLOW: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(3500)];

/// Pause between tries to ask the store.
const ASK_AGAIN: Duration = Duration::from_millis(50);

impl World {
    fn can_speak(&self, from: Place, to: Place) -> bool {
        self.fabric.hears(from, to) && self.machines[from].pauses == 0
    }

    pub(super) fn connect(&mut self, id: ConnectionId, node: Place, manager: usize) {
        let Some(manager) = self.fabric.find_kind(Kind::Manager(manager)) else { return };
        let connection = Connection {
            node,
            manager,
            open: [true, true],
            held: Default::default(),
            inbox: Default::default(),
            last: [self.now; 2],
            silent: None,
        };
        self.connections.insert(id, connection);
        self.say(id, node, Message::Open);
        self.review();
    }

    /// A process says something.
    pub(super) fn say(&mut self, id: ConnectionId, from: Place, message: Message) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let to_manager = usize::from(from == connection.node);
        let (own, other) = (1 - to_manager, to_manager);
        if !connection.open[own] {
            return;
        }
        let far = [connection.node, connection.manager][other];
        let waits = !connection.held[other].is_empty();
        if waits || !self.fabric.hears(from, far) {
            self.coverage.meet("word that has to wait");
            let connection = self.connections.get_mut(&id).expect("it is there");
            return connection.held[other].push_back(message);
        }
        self.launch(id, to_manager == 1, message, Duration::ZERO);
    }

    fn launch(&mut self, id: ConnectionId, to_manager: bool, message: Message, more: Duration) {
        let after = self.draw_between(SHORTEST, LONGEST) + more;
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let last = &mut connection.last[usize::from(to_manager)];
        *last = (*last + Duration::from_picos(1)).max(now + after);
        let after = last.since(now);
        self.push(after, Event::Word { connection: id, to_manager, message: Box::new(message) });
    }

    /// A word arrives.
    pub(super) fn deliver(&mut self, id: ConnectionId, to_manager: bool, message: Message) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.open[usize::from(to_manager)] {
            connection.inbox[usize::from(to_manager)].push_back(message);
            self.read(id, to_manager);
        }
    }

    /// A process that runs reads what has come.
    fn read(&mut self, id: ConnectionId, to_manager: bool) {
        loop {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            let place = if to_manager { connection.manager } else { connection.node };
            let machine = &self.machines[place];
            if machine.pauses > 0 || machine.process.as_ref().is_some_and(Process::is_blocked) {
                return;
            }
            let Some(message) = connection.inbox[usize::from(to_manager)].pop_front() else { return };
            self.take_word(id, to_manager, message);
        }
    }

    /// A process runs again, and reads what has come meanwhile.
    pub(super) fn read_all(&mut self, place: Place) {
        let of = |connection: &Connection| [connection.node == place, connection.manager == place];
        let has = |connection: &Connection| connection.inbox.iter().any(|inbox| !inbox.is_empty());
        let waiting = self.connections.iter().filter(|(_, own)| of(own) != [false, false] && has(own));
        let ids: Vec<ConnectionId> = waiting.map(|(id, _)| *id).collect();
        for id in ids {
            [false, true].into_iter().for_each(|to_manager| self.read(id, to_manager));
        }
    }

    fn take_word(&mut self, id: ConnectionId, to_manager: bool, message: Message) {
        let Some(connection) = self.connections.get(&id) else { return };
        let place = if to_manager { connection.manager } else { connection.node };
        let (node, manager) = (connection.node, connection.manager);
        let machine = &self.machines[place];
        match (to_manager, message) {
            (true, Message::Open) => {
                let serves = matches!(&machine.process, Some(Process::Manager(manager)) if manager.serves());
                let answer = if serves { Message::Opened } else { Message::Refused };
                self.say(id, place, answer);
                if !serves {
                    self.shut(id, 1);
                }
            }
            (true, Message::Call(call, request)) => {
                let name = self.fabric.name(node).to_owned();
                let tenant = self.tenant_of(node);
                self.tell_word([node, place], || call_text(&request));
                self.step(place, |process, out| {
                    if let Process::Manager(manager) = process {
                        manager.take((id, call), (&name, &tenant), request, out);
                    }
                });
            }
            (true, Message::Closed) => {
                self.shut(id, 1);
                self.step(place, |process, out| {
                    if let Process::Manager(manager) = process {
                        manager.lose(id, out);
                    }
                });
            }
            (false, message) => {
                self.tell_word([manager, place], || match &message {
                    Message::Instruct(instruction) => {
                        Some(format!("{instruction:?}").chars().take(90).collect())
                    }
                    _ => None,
                });
                if matches!(message, Message::Closed | Message::Refused) {
                    self.shut(id, 0);
                }
                self.step(place, |process, out| match process {
                    Process::Rank(rank) => {
                        rank.client().hear(id, message, out);
                        rank.take_answers(out);
                    }
                    Process::Switch(switch) => switch.client.hear(id, message, out),
                    Process::Manager(_) => {}
                });
            }
            (true, _) => {}
        }
    }

    /// An end is closed; a connection without an open end is forgotten.
    fn shut(&mut self, id: ConnectionId, end: usize) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.open[end] = false;
            connection.held[end].clear();
            connection.inbox[end].clear();
            let is_over = connection.open == [false, false];
            let has_words = connection.held.iter().any(|held| !held.is_empty());
            if is_over && !has_words {
                self.connections.remove(&id);
            }
        }
    }

    /// A process closes its end, or the kernel does it when the process has ended: the other one is told.
    pub(super) fn close(&mut self, id: ConnectionId, place: Place) {
        self.say(id, place, Message::Closed);
        let end = self.connections.get(&id).map(|connection| usize::from(place == connection.manager));
        if let Some(end) = end {
            self.shut(id, end);
        }
    }

    /// All connections of a machine end, in order or with its power.
    pub(super) fn close_all(&mut self, place: Place, in_order: bool) {
        let of = |connection: &Connection| connection.node == place || connection.manager == place;
        let ids: Vec<ConnectionId> =
            self.connections.iter().filter(|(_, own)| of(own)).map(|(id, _)| *id).collect();
        for id in ids {
            if in_order {
                self.close(id, place);
                continue;
            }
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let end = usize::from(place == connection.manager);
            connection.open[end] = false;
            connection.held[end].clear();
            connection.inbox[end].clear();
            // Whoever speaks to the machine when it is back hears that there is no such connection.
            connection.held[1 - end].push_back(Message::Closed);
        }
    }

    /// Something has changed about who hears whom: which connections do not work now, and which do again.
    pub(super) fn review(&mut self) {
        let managers = usize::from(self.plan.managers);
        let mut silent = Vec::new();
        for (id, connection) in &self.connections {
            let (node, manager) = (connection.node, connection.manager);
            let works = self.can_speak(node, manager) && self.can_speak(manager, node);
            match (works, connection.silent) {
                (true, Some(_)) => silent.push((*id, None)),
                (false, None) => silent.push((*id, Some(self.now))),
                _ => {}
            }
        }
        for (id, since) in silent {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.silent = since;
            }
            let Some(since) = since else { continue };
            for (at_manager, patience) in [(false, Client::keep_alive(managers)), (true, KEEP_ALIVE)] {
                let after = patience + self.draw_between(Duration::ZERO, patience / 2);
                self.push(after, Event::Silence { connection: id, at_manager, since });
            }
        }
        self.flush_words();
    }

    /// Words that have waited come through where the network lets them.
    pub(super) fn flush_words(&mut self) {
        let ids: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.held.iter().any(|held| !held.is_empty()))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            for to_manager in [false, true] {
                let Some(connection) = self.connections.get_mut(&id) else { continue };
                let (from, to) = match to_manager {
                    true => (connection.node, connection.manager),
                    false => (connection.manager, connection.node),
                };
                if !self.fabric.hears(from, to) {
                    continue;
                }
                let words = std::mem::take(&mut connection.held[usize::from(to_manager)]);
                let more =
                    if words.is_empty() { Duration::ZERO } else { self.draw_between(Duration::ZERO, AGAIN) };
                for message in words {
                    self.launch(id, to_manager, message, more);
                }
            }
        }
    }

    /// An end has heard nothing for too long.
    pub(super) fn fall_silent(&mut self, id: ConnectionId, at_manager: bool, since: Instant) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (place, end) = match at_manager {
            true => (connection.manager, 1),
            false => (connection.node, 0),
        };
        if connection.silent != Some(since) || !connection.open[end] {
            return;
        }
        if self.machines[place].pauses > 0 {
            // Who is stopped notices nothing.
            return;
        }
        self.coverage.meet(if at_manager {
            "manager gives a connection up"
        } else {
            "node gives a connection up"
        });
        self.close(id, place);
        self.step(place, |process, out| match process {
            Process::Rank(rank) => rank.client().lose(id, out),
            Process::Switch(switch) => switch.client.lose(id, out),
            Process::Manager(manager) => manager.lose(id, out),
        });
    }

    fn tenant_of(&self, node: Place) -> String {
        let job = self.jobs.iter().position(|job| job.hosts.contains(&node));
        job.map_or_else(String::new, |job| self.plan.jobs[job].tenant.clone())
    }

    /// A manager asks the store, again and again until there is an answer or the time is over.
    pub(super) fn ask_store(&mut self, place: Place, life: u32, request: StoreRequest, until: Instant) {
        let Kind::Manager(number) = self.fabric.kind(place) else { return };
        let is_gone = self.machines[place].life != life || self.machines[place].process.is_none();
        if is_gone && !matches!(request, StoreRequest::GiveBack { .. }) {
            return;
        }
        let Some(store) = self.fabric.find_kind(Kind::Store) else { return };
        let is_local = self.plan.store == crate::plan::StoreKind::File;
        let answers =
            |world: &Self| is_local || world.machines[store].downs == 0 && world.machines[store].pauses == 0;
        let comes = answers(self) && (is_local || self.fabric.hears(place, store));
        if comes {
            let is_change = matches!(request, StoreRequest::Keep { .. });
            if is_change && let Some(kept) = self.torn.take() {
                self.coverage.meet("change torn by the manager's end");
                if kept {
                    self.store.answer(self.now, number, &request, false);
                }
                // It hears no more of it: its end comes while the change is on its way.
                let after = self.draw_between(Duration::ZERO, LONGEST);
                self.push(after, Event::TornEnd { place, life });
                return;
            }
            let full = self.is_active(|kind| *kind == crate::plan::FaultKind::FullStore);
            let slow = self.is_active(|kind| *kind == crate::plan::FaultKind::SlowStore);
            let reply = self.store.answer(self.now, number, &request, full);
            if is_local || self.fabric.hears(store, place) {
                let mut after = self.draw_between(SHORTEST, LONGEST);
                if slow && !matches!(request, StoreRequest::Renew { .. }) {
                    self.coverage.meet("slow answer of the store");
                    after += self.draw_between(SLOW[0], SLOW[1]);
                }
                // Whoever waits does not wait for longer than that.
                let left = if until > self.now { until.since(self.now) } else { Duration::ZERO };
                let (after, reply) =
                    if after > left && !is_local { (left, StoreReply::Silent) } else { (after, reply) };
                self.push(after, Event::Answer { place, life, reply });
                return;
            }
            self.coverage.meet("answer of the store lost");
        }
        if matches!(request, StoreRequest::GiveBack { .. }) && is_gone {
            return;
        }
        match self.now + ASK_AGAIN < until {
            true => _ = self.push(ASK_AGAIN, Event::Store { place, life, request, until }),
            false => _ = self.push(ASK_AGAIN, Event::Answer { place, life, reply: StoreReply::Silent }),
        }
    }
}

/// What a node tells the manager, for the story.
fn call_text(request: &crate::connection::Request) -> Option<String> {
    use crate::connection::Request;
    match request {
        Request::Attach { held, .. } => {
            let groups: Vec<String> = held.iter().map(|held| held.group.to_string()).collect();
            Some(format!("attaches with groups [{}]", groups.join(", ")))
        }
        Request::Report { group, report } => {
            let text: String = format!("{report:?}").chars().take(90).collect();
            Some(format!("tells of group {group}: {text}"))
        }
        Request::Links(_) => Some("tells its links".to_owned()),
        Request::Init(wanted) => Some(format!("asks for {} of {}", wanted.design, wanted.members.join(" "))),
        Request::Renew(_) => None,
    }
}
