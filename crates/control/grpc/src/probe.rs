//! Any bytes as messages of the control plane, taken as the server and the client take them: for the fuzz target, and for the tests that
//! replay its corpus.

use crate::records::{Record, Records};
use crate::{convert, proto};
use prost::Message;
use quincunx_collective::GroupId;
use quincunx_control::{Action, Manager, ManagerConfig, RequestId};
use quincunx_design::Catalog;

/// A manager that peers talk to, without a connection.
#[derive(Debug)]
pub struct Probe {
    manager: Manager,
    records: Records,
    requests: u64,
}

impl Probe {
    /// Kinds of messages that [`take`](Self::take) knows.
    pub const KINDS: u8 = 8;

    /// A manager of groups of these designs that knows nobody.
    pub fn new(catalog: Catalog, fallback: Option<&'static str>) -> Self {
        let config = ManagerConfig { fallback, ..ManagerConfig::default() };
        Self { manager: Manager::new(catalog, config), records: Records::default(), requests: 0 }
    }

    /// Takes bytes as a message: of kinds 0 to 3 as the server does (attachment, report, request for a group, end of one), of the others as
    /// the client does (instruction, group, node, explanation). Whether they made sense.
    ///
    /// # Panics
    /// If the manager's state does, or what was understood is not the same after it was said again.
    pub fn take(&mut self, kind: u8, bytes: &[u8]) -> bool {
        self.try_take(kind, bytes).is_some()
    }

    fn try_take(&mut self, kind: u8, bytes: &[u8]) -> Option<()> {
        let mut actions = Vec::new();
        match kind % Self::KINDS {
            0 => {
                let proto::AttachRequest { node, held } = Message::decode(bytes).ok()?;
                let (node, held) = (convert::decode_node(node?).ok()?, convert::decode_held(held).ok()?);
                self.manager.attach(node, &held, &mut actions).ok()?;
            }
            1 => {
                let proto::ReportRequest { node, group, report } = Message::decode(bytes).ok()?;
                let report = convert::decode_report(report).ok()?;
                self.manager.handle_report(&node, GroupId(group), report, &mut actions).ok()?;
            }
            2 => {
                let mut message = proto::InitGroupRequest::decode(bytes).ok()?;
                let name = std::mem::take(&mut message.name);
                let wanted = convert::decode_request(message).ok()?;
                assert_eq!(convert::decode_request(convert::encode_request(&wanted)).as_ref(), Ok(&wanted));
                self.records.check_name(&name, "", &self.manager).ok()?;
                self.requests += 1;
                let request = RequestId(self.requests);
                let asked = wanted.design.clone();
                self.records.ask(request, Record { name, asked, ..Record::default() });
                self.manager.init_group(request, &wanted, &mut actions);
                for action in &actions {
                    match action {
                        Action::Begin { request, group } => {
                            self.records.begin(*request, *group, &self.manager)
                        }
                        Action::Answer { request, answer: Err(error) } => {
                            self.records.refuse(*request, error, &self.manager);
                        }
                        _ => {}
                    }
                }
            }
            3 => {
                let group = GroupId(proto::DestroyGroupRequest::decode(bytes).ok()?.group);
                self.records.forget(group);
                self.requests += 1;
                self.manager.destroy_group(RequestId(self.requests), group, &mut actions).ok()?;
            }
            4 => {
                let instruction = convert::decode_instruction(Message::decode(bytes).ok()?).ok()?;
                let again = convert::decode_instruction(convert::encode_instruction(&instruction));
                assert_eq!(again, Ok(instruction));
            }
            5 => {
                let group = convert::decode_status(Message::decode(bytes).ok()?).ok()?;
                assert_eq!(convert::decode_status(convert::encode_status(&group)), Ok(group));
            }
            6 => {
                let node = convert::decode_node_status(Message::decode(bytes).ok()?).ok()?;
                assert_eq!(convert::decode_node_status(convert::encode_node_status(&node)), Ok(node));
            }
            _ => {
                let why = convert::decode_explanation(Message::decode(bytes).ok()?).ok()?;
                assert_eq!(convert::decode_explanation(convert::encode_explanation(&why)), Ok(why));
            }
        }
        for action in actions {
            if let Action::Instruct { instruction, .. } = action {
                let said = convert::encode_instruction(&instruction).encode_to_vec();
                assert!(self.take(4, &said), "a node does not understand {instruction:?}");
            }
        }
        Some(())
    }
}
