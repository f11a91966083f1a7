//! What each tenant may have, and how often each may ask.

use crate::Identity;
use quincunx_control::{Allowance, Allowances};
use quincunx_units::ByteCount;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Instant;

/// What a tenant may have; nothing said: no limit, but for the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quota {
    /// Groups in switches at once.
    pub groups: Option<u32>,
    /// Memory of all switches together.
    pub switch_memory: Option<ByteCount>,
    /// Calls a second; twice as many may come at once.
    pub calls_per_second: Option<u32>,
}

/// What all tenants may have.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quotas {
    /// For those of whom nothing else is said.
    pub default: Quota,
    /// By tenant: what is said here goes before the default.
    pub tenants: BTreeMap<String, Quota>,
}

/// Calls a second of a tenant of whom nothing is said.
const TENANT_CALLS: u32 = 200;

/// Attachments and reports a second of a node.
const NODE_CALLS: u32 = 2000;

/// Identities whose last calls are remembered; each is one of the authority's certificates.
const REMEMBERED: usize = 1 << 16;

/// Somebody asks too often.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected at most {limit} calls a second of {who}, found more; wait a second")]
pub(crate) struct TooOften {
    who: String,
    limit: u32,
}

impl Quota {
    const fn allowance(&self) -> Allowance {
        Allowance { groups: self.groups, switch_memory: self.switch_memory }
    }
}

impl Quotas {
    /// What of it is for the manager to see to.
    pub(crate) fn allowances(&self) -> Allowances {
        let of = |(tenant, quota): (&String, &Quota)| (tenant.clone(), quota.allowance());
        Allowances { default: self.default.allowance(), owners: self.tenants.iter().map(of).collect() }
    }

    pub(crate) fn of(&self, tenant: &str) -> Quota {
        let own = self.tenants.get(tenant).copied().unwrap_or_default();
        Quota {
            groups: own.groups.or(self.default.groups),
            switch_memory: own.switch_memory.or(self.default.switch_memory),
            calls_per_second: own.calls_per_second.or(self.default.calls_per_second),
        }
    }
}

/// How many calls each may still make: a bucket of twice a second's, which fills as time goes by.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    buckets: BTreeMap<(Identity, bool), Bucket>,
}

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
    /// When it was last told that there were too many.
    told: Option<Instant>,
}

impl Rates {
    /// Takes a call of somebody's. Of refusals the flag says whether to tell of this one: of one a second.
    pub(crate) fn take(
        &mut self,
        who: &Identity,
        as_node: bool,
        quotas: &Quotas,
        now: Instant,
    ) -> Result<(), (TooOften, bool)> {
        if who.is_operator() {
            return Ok(());
        }
        let limit = match &who.tenant {
            _ if as_node => NODE_CALLS,
            Some(tenant) => quotas.of(tenant).calls_per_second.unwrap_or(TENANT_CALLS),
            None => TENANT_CALLS,
        };
        let most = 2.0 * f64::from(limit);
        if self.buckets.len() >= REMEMBERED {
            self.buckets.clear();
        }
        let full = Bucket { left: most, at: now, told: None };
        let bucket = self.buckets.entry((who.clone(), as_node)).or_insert(full);
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.left, bucket.at) = ((bucket.left + passed * f64::from(limit)).min(most), now);
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        let is_news = bucket.told.is_none_or(|told| now.saturating_duration_since(told).as_secs() >= 1);
        if is_news {
            bucket.told = Some(now);
        }
        Err((TooOften { who: who.to_string(), limit }, is_news))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn blue() -> Identity {
        Identity { tenant: Some("blue".into()), ..Identity::default() }
    }

    #[test]
    fn two_seconds_of_calls_may_come_at_once_and_then_as_many_as_time_brings() {
        let quotas =
            Quotas { default: Quota { calls_per_second: Some(10), ..Quota::default() }, ..Quotas::default() };
        let (mut rates, start) = (Rates::default(), Instant::now());
        let mut count =
            |at: Instant| (0..100).filter(|_| rates.take(&blue(), false, &quotas, at).is_ok()).count();
        assert_eq!(count(start), 20);
        assert_eq!(count(start), 0);
        assert_eq!(count(start + Duration::from_millis(500)), 5);
        assert_eq!(count(start + Duration::from_secs(60)), 20);
    }

    #[test]
    fn of_refusals_one_a_second_is_told() {
        let quotas =
            Quotas { default: Quota { calls_per_second: Some(0), ..Quota::default() }, ..Quotas::default() };
        let (mut rates, start) = (Rates::default(), Instant::now());
        let mut told = |millis| {
            let at = start + Duration::from_millis(millis);
            rates.take(&blue(), false, &quotas, at).is_err_and(|(_, told)| told)
        };
        assert_eq!([0, 1, 999, 1000, 1001, 2500].map(&mut told), [true, false, false, true, false, true]);
    }

    #[test]
    fn what_is_said_of_a_tenant_goes_before_the_default() {
        let quotas: Quotas = serde_json::from_str(
            r#"{"default": {"groups": 4, "switch_memory": "1MiB"}, "tenants": {"blue": {"groups": 9}}}"#,
        )
        .unwrap();
        assert_eq!((quotas.of("blue").groups, quotas.of("red").groups), (Some(9), Some(4)));
        assert_eq!(quotas.of("blue").switch_memory, Some(ByteCount::new(1 << 20)));
        assert!(serde_json::from_str::<Quotas>(r#"{"default": {"group": 4}}"#).is_err(), "a misspelt key");
    }
}
