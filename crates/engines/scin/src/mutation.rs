//! Rules of SCIN that can be broken on purpose. No switch ever does outside of the checker.

quincunx_engine::mutations! {
    /// A packet is read out, and its sum written back, when one operand is still missing (3.4).
    ReadsOutEarly = "reads-out-early",
    /// An entry of the wave tables is idle again when the first packet of its wave has been read out, not the last (3.4).
    FreesWaveEarly = "frees-wave-early",
    /// A result is written where the next one belongs.
    NextAddress = "next-address",
    /// The scale factors of every wave are those of the first (3.4).
    FirstScales = "first-scales",
    /// The scale factors of a wave's sum are written back where those of the first wave's belong.
    ScalesToFirst = "scales-to-first",
    /// The barrier does not wait for the last participant (3.3).
    BarrierShort = "barrier-short",
}
