//! What ranks are done with: told to the manager without waiting, again and again for as long as the client has patience, and counted, so
//! that whoever asks for a group next can wait until the manager has heard of the ones before.

use super::outstanding::OnItsWay;
use super::{ControlClient, LONGEST_POLL};
use crate::{convert, proto};
use quincunx_collective::GroupId;
use quincunx_control::Report;
use quincunx_units::Duration;
use std::sync::PoisonError;
use std::time::Instant;

impl ControlClient {
    /// Waits until the manager has heard of all groups that the node has said to be done with, but no longer than an answer may take.
    pub fn wait_for_releases(&self) {
        let end = Instant::now() + std::time::Duration::from(self.config.call_timeout);
        let mut count = self.releases.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.releases.changed.wait_timeout(count, left);
            count = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Says that a node's rank is done with a group. A manager that knows no such group has nothing to end; one that does not know the node
    /// hears it when that attaches again, or at the next attempt.
    pub(super) fn send_release(&self, node: &str, group: GroupId) {
        let mut stub = self.stub.clone();
        let report = Some(convert::encode_report(Report::Released));
        let request = proto::ReportRequest { node: node.to_owned(), group: group.0, report };
        let after = self.config.call_timeout;
        let patience = self.config.patience;
        let on_its_way = OnItsWay::new(&self.releases);
        self.background.runtime().spawn(async move {
            let end = Instant::now() + std::time::Duration::from(patience.max(Duration::from_millis(1)));
            loop {
                let answer = tokio::time::timeout(after.into(), stub.report(request.clone())).await;
                let is_heard = match answer {
                    Ok(Ok(_)) => true,
                    Ok(Err(status)) => !matches!(
                        status.code(),
                        tonic::Code::FailedPrecondition
                            | tonic::Code::Unavailable
                            | tonic::Code::Unknown
                            | tonic::Code::Cancelled
                    ),
                    Err(_) => false,
                };
                if is_heard || Instant::now() >= end {
                    return drop(on_its_way);
                }
                tokio::time::sleep(LONGEST_POLL).await;
            }
        });
    }
}
