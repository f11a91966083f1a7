//! Structures and constants that are shared with libibverbs, as rdma-core's `verbs.h` has them on machines of 64 bits: they have been the
//! same since 2005 (IBVERBS_1.1).

use std::ffi::{c_int, c_uint, c_void};
use std::net::IpAddr;

/// How many entries a device's table of functions has, and where those are that are wanted.
pub(crate) const FUNCTIONS: usize = 32;
pub(crate) const POLL_CQ: usize = 11;
pub(crate) const REQ_NOTIFY_CQ: usize = 12;
pub(crate) const POST_SEND: usize = 25;
pub(crate) const POST_RECV: usize = 26;

pub(crate) const IBV_QPT_RC: c_uint = 2;
pub(crate) const IBV_WR_SEND: c_uint = 2;
pub(crate) const IBV_WR_SEND_WITH_IMM: c_uint = 3;
pub(crate) const IBV_SEND_SIGNALED: c_uint = 2;
pub(crate) const IBV_ACCESS_LOCAL_WRITE: c_uint = 1;
pub(crate) const IBV_WC_WITH_IMM: c_uint = 2;

pub(crate) const IBV_QPS_RESET: c_uint = 0;
pub(crate) const IBV_QPS_INIT: c_uint = 1;
pub(crate) const IBV_QPS_RTR: c_uint = 2;
pub(crate) const IBV_QPS_RTS: c_uint = 3;

/// Bits that say which attributes of a queue pair are to be set.
pub(crate) mod mask {
    use std::ffi::c_int;

    pub(crate) const STATE: c_int = 1;
    pub(crate) const ACCESS_FLAGS: c_int = 1 << 3;
    pub(crate) const PKEY_INDEX: c_int = 1 << 4;
    pub(crate) const PORT: c_int = 1 << 5;
    pub(crate) const AV: c_int = 1 << 7;
    pub(crate) const PATH_MTU: c_int = 1 << 8;
    pub(crate) const TIMEOUT: c_int = 1 << 9;
    pub(crate) const RETRY_CNT: c_int = 1 << 10;
    pub(crate) const RNR_RETRY: c_int = 1 << 11;
    pub(crate) const RQ_PSN: c_int = 1 << 12;
    pub(crate) const MAX_QP_RD_ATOMIC: c_int = 1 << 13;
    pub(crate) const MIN_RNR_TIMER: c_int = 1 << 15;
    pub(crate) const SQ_PSN: c_int = 1 << 16;
    pub(crate) const MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
    pub(crate) const DEST_QPN: c_int = 1 << 20;
}

#[repr(C)]
pub(crate) struct Context {
    device: *mut c_void,
    pub(crate) functions: [*const c_void; FUNCTIONS],
}

#[repr(C)]
pub(crate) struct CompletionChannel {
    context: *mut Context,
    pub(crate) fd: c_int,
    references: c_int,
}

#[repr(C)]
pub(crate) struct CompletionQueue {
    context: *mut Context,
}

#[repr(C)]
pub(crate) struct MemoryRegion {
    context: *mut Context,
    domain: *mut c_void,
    address: *mut c_void,
    length: usize,
    handle: u32,
    pub(crate) lkey: u32,
    rkey: u32,
}

#[repr(C)]
pub(crate) struct Pair {
    context: *mut Context,
    queue_pair_context: *mut c_void,
    domain: *mut c_void,
    queues: [*mut c_void; 3],
    handle: u32,
    pub(crate) number: u32,
}

#[repr(C)]
pub(crate) struct GidEntry {
    pub(crate) gid: [u8; 16],
    pub(crate) index: u32,
    pub(crate) port: u32,
    pub(crate) kind: u32,
    pub(crate) interface: u32,
}

/// The kind of a GID under which frames are RoCEv2.
pub(crate) const ROCE_V2: u32 = 2;

#[repr(C)]
pub(crate) struct Element {
    pub(crate) address: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

#[repr(C)]
pub(crate) struct SendWork {
    pub(crate) id: u64,
    pub(crate) next: *mut SendWork,
    pub(crate) elements: *mut Element,
    pub(crate) count: c_int,
    pub(crate) opcode: c_uint,
    pub(crate) flags: c_uint,
    pub(crate) immediate: u32,
    /// What only other operations have.
    pub(crate) others: [u64; 11],
}

#[repr(C)]
pub(crate) struct ReceiveWork {
    pub(crate) id: u64,
    pub(crate) next: *mut ReceiveWork,
    pub(crate) elements: *mut Element,
    pub(crate) count: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct WorkCompletion {
    pub(crate) id: u64,
    pub(crate) status: c_uint,
    pub(crate) opcode: c_uint,
    pub(crate) vendor_error: u32,
    pub(crate) length: u32,
    pub(crate) immediate: u32,
    pub(crate) number: u32,
    pub(crate) source: u32,
    pub(crate) flags: c_uint,
    pub(crate) others: [u16; 4],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Capacity {
    pub(crate) sends: u32,
    pub(crate) receives: u32,
    pub(crate) send_elements: u32,
    pub(crate) receive_elements: u32,
    pub(crate) inline: u32,
}

#[repr(C)]
pub(crate) struct PairInit {
    pub(crate) context: *mut c_void,
    pub(crate) send_queue: *mut CompletionQueue,
    pub(crate) receive_queue: *mut CompletionQueue,
    pub(crate) shared: *mut c_void,
    pub(crate) capacity: Capacity,
    pub(crate) kind: c_uint,
    pub(crate) signal_all: c_int,
}

/// Aligned like the words that a GID may be read as.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
pub(crate) struct AddressHandle {
    pub(crate) gid: [u8; 16],
    pub(crate) flow_label: u32,
    pub(crate) gid_index: u8,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    pub(crate) lid: u16,
    pub(crate) service_level: u8,
    pub(crate) path_bits: u8,
    pub(crate) static_rate: u8,
    pub(crate) is_global: u8,
    pub(crate) port: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct PairAttributes {
    pub(crate) state: c_uint,
    pub(crate) current_state: c_uint,
    pub(crate) path_mtu: c_uint,
    pub(crate) migration: c_uint,
    pub(crate) key: u32,
    pub(crate) receive_psn: u32,
    pub(crate) send_psn: u32,
    pub(crate) remote_number: u32,
    pub(crate) access: c_uint,
    pub(crate) capacity: Capacity,
    pub(crate) address: AddressHandle,
    pub(crate) other_address: AddressHandle,
    pub(crate) partition: u16,
    pub(crate) other_partition: u16,
    pub(crate) notify_drained: u8,
    pub(crate) is_draining: u8,
    pub(crate) reads: u8,
    pub(crate) reads_of_peer: u8,
    pub(crate) rnr_timer: u8,
    pub(crate) port: u8,
    pub(crate) timeout: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry_count: u8,
    pub(crate) other_port: u8,
    pub(crate) other_timeout: u8,
    pub(crate) rate_limit: u32,
}

/// The InfiniBand GID as which an address appears: one of IPv6 as it is, one of IPv4 in IPv6 clothes.
pub(crate) fn gid_of(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
    .octets()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// What the C compiler makes of rdma-core's verbs.h on 64-bit machines.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn structures_are_laid_out_as_in_verbs_h() {
        assert_eq!(offset_of!(Context, functions), 8);
        assert_eq!([POLL_CQ, REQ_NOTIFY_CQ, POST_SEND, POST_RECV].map(|index| index * 8), [88, 96, 200, 208]);
        assert_eq!((size_of::<SendWork>(), offset_of!(SendWork, immediate)), (128, 36));
        assert_eq!((size_of::<ReceiveWork>(), size_of::<Element>()), (32, 16));
        assert_eq!((size_of::<WorkCompletion>(), offset_of!(WorkCompletion, immediate)), (48, 24));
        assert_eq!((offset_of!(WorkCompletion, number), offset_of!(WorkCompletion, flags)), (28, 36));
        assert_eq!((size_of::<PairInit>(), offset_of!(PairInit, kind)), (64, 52));
        assert_eq!((size_of::<PairAttributes>(), offset_of!(PairAttributes, address)), (144, 56));
        assert_eq!((offset_of!(PairAttributes, timeout), offset_of!(PairAttributes, reads)), (130, 126));
        assert_eq!((size_of::<AddressHandle>(), offset_of!(AddressHandle, port)), (32, 30));
        assert_eq!((offset_of!(Pair, number), offset_of!(MemoryRegion, lkey)), (52, 36));
        assert_eq!(offset_of!(CompletionChannel, fd), 8);
    }
}
