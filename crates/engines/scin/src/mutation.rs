//! Rules of SCIN that can be broken on purpose. No switch ever does outside of the checker.

quincunx_engine::mutations! {
    /// A packet is read out, and its sum written back, when one operand is still missing (3.4).
    ReadsOutEarly = "reads-out-early",
    /// An entry of the wave tables is idle again when the first packet of its wave has been read out, not the last (3.4).
    FreesWaveEarly = "frees-wave-early",
    /// A result is written where the next one belongs.
    NextAddress = "next-address",
    /// The barrier does not wait for the last participant (3.3).
    BarrierShort = "barrier-short",
}
