// SendAck: tells each of a set of senders what has arrived of its packets in a row, or what it is
// asked for. A sender takes a cycle to begin, one for each collective that it is looked for in, and
// one to be told. What each has been told is kept here: the same is told once.
`default_nettype none

module answer_maker #(
    parameter int PORTS = 8,
    parameter int COLLECTIVES = 8,
    // What is known of a collective: entry_t of group_control.
    parameter type ENTRY = logic,
    localparam int PortW = $clog2(PORTS),
    localparam int KW = $clog2(COLLECTIVES + 1)
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // The group begins, with this number.
    input wire logic begins_i,
    input wire logic [inc_engine_pkg::SeqW-1:0] first_i,
    input wire logic [PORTS-1:0] ends_i,
    // Collectives that are known, oldest first; where the oldest begins; what edges acknowledged.
    input wire ENTRY [COLLECTIVES-1:0] table_i,
    input wire logic [KW-1:0] known_i,
    input wire logic [inc_engine_pkg::SeqW-1:0] base_i,
    input wire logic [PORTS-1:0][inc_engine_pkg::SeqW-1:0] acked_i,
    // Answers to a set of senders; they are made from the next cycle on.
    input wire logic start_i,
    input wire logic [PORTS-1:0] senders_i,
    input wire inc_engine_pkg::answer_e kind_i,
    input wire logic [inc_engine_pkg::SeqW-1:0] number_i,
    input wire logic [7:0] syndrome_i,
    // All are made.
    output logic done_o,
    // Packets that have come, of one number.
    input wire logic [PORTS-1:0] came_i,
    input wire logic [inc_engine_pkg::SeqW-1:0] came_number_i,
    input wire logic [PORTS-1:0] ack_ready_i,
    output logic [PORTS-1:0] ack_o,
    output logic [23:0] ack_psn_o,
    output logic [7:0] ack_syndrome_o
);
  import inc_engine_pkg::*;

  typedef logic [SeqW-1:0] seq_t;
  typedef logic [PORTS-1:0] set_t;

  typedef enum logic [1:0] {
    Next,
    Scan,
    Send
  } state_e;
  state_e  state_q, state_d;

  set_t    senders_q, senders_d;
  answer_e kind_q;
  seq_t    number_q;
  logic [7:0] syndrome_q;

  // How far each sender's packets have arrived, the last that it was told of, what it is asked for.
  seq_t [PORTS-1:0] position_q, position_d, covered_q, covered_d, asked_q, asked_d;
  set_t             has_covered_q, has_covered_d, has_asked_q, has_asked_d;

  // The same of the one whose turn it is, as far as it has been looked for.
  logic [PortW-1:0] sender;
  seq_t             scan_q, scan_d, last_q, last_d;
  logic             has_last_q, has_last_d;
  logic [KW-1:0]    step_q, step_d;

  function automatic logic [PortW-1:0] lowest(input set_t set);
    lowest = '0;
    for (int p = PORTS - 1; p >= 0; p--) if (set[p]) lowest = PortW'(p);
  endfunction

  ENTRY candidate;
  logic unused_bits;
  assign unused_bits = ^candidate;
  logic takes_part, has_changed, bounded, sends;
  seq_t arrived, asks;

  // How far a collective has come for the sender, if it takes part.
  always_comb begin
    candidate = table_i[step_q];
    unique case (candidate.message.pattern)
      Reduce: begin
        takes_part = candidate.up_sources[sender];
        arrived    = acked_i[lowest(candidate.up_outs)];
      end
      Broadcast: begin
        takes_part = candidate.down_sources[sender];
        arrived    = candidate.last + 1'b1;
        for (int p = 0; p < PORTS; p++) begin
          if (candidate.down_outs[p]) arrived = earlier(acked_i[p], arrived);
        end
      end
      default: begin
        takes_part = ends_i[sender];
        arrived    = acked_i[sender];
      end
    endcase
    arrived = later(candidate.first, earlier(arrived, candidate.last + 1'b1));
  end

  always_comb begin
    has_changed    = has_last_q != has_covered_q[sender] || last_q != covered_q[sender];
    bounded        = syndrome_q == SyndromeNak || syndrome_q[7:5] == 3'd1;
    asks           = bounded ? earlier(number_q, scan_q) : number_q;
    sends          = 1'b1;
    ack_syndrome_o = syndrome_q;
    unique case (kind_q)
      Tell: begin
        sends          = has_changed && has_last_q;
        asks           = last_q;
        ack_syndrome_o = SyndromeAck;
      end
      TellAgain: begin
        sends          = has_last_q;
        asks           = earlier(last_q, number_q);
        ack_syndrome_o = SyndromeAck;
      end
      PassOn: ;
      default: begin
        sends = !bounded || !has_asked_q[sender] || precedes(asked_q[sender], scan_q) ||
            precedes(asks, asked_q[sender]);
      end
    endcase
    ack_psn_o = asks[23:0];
  end

  assign sender = lowest(senders_q);
  assign done_o = state_q == Next && senders_q == '0;

  always_comb begin
    state_d       = state_q;
    senders_d     = senders_q;
    position_d    = position_q;
    covered_d     = covered_q;
    has_covered_d = has_covered_q;
    asked_d       = asked_q;
    has_asked_d   = has_asked_q;
    scan_d        = scan_q;
    last_d        = last_q;
    has_last_d    = has_last_q;
    step_d        = step_q;
    ack_o         = '0;

    unique case (state_q)
      Next: begin
        scan_d     = later(position_q[sender], base_i);
        last_d     = covered_q[sender];
        has_last_d = has_covered_q[sender];
        // The first collective that ends there or later.
        step_d     = known_i;
        for (int i = COLLECTIVES - 1; i >= 0; i--) begin
          if (KW'(i) < known_i && !precedes(table_i[i].last, scan_d)) step_d = KW'(i);
        end
        if (senders_q != '0) state_d = Scan;
      end
      Scan: begin
        if (step_q >= known_i || precedes(scan_q, candidate.first)) state_d = Send;
        else begin
          step_d = step_q + 1'b1;
          if (!takes_part) scan_d = candidate.last + 1'b1;
          else begin
            if (precedes(scan_q, arrived)) begin
              scan_d     = arrived;
              last_d     = arrived - 1'b1;
              has_last_d = 1'b1;
            end
            if (!precedes(candidate.last, scan_d)) state_d = Send;
          end
        end
      end
      default: begin
        if (!sends || ack_ready_i[sender]) begin
          ack_o[sender]         = sends;
          position_d[sender]    = scan_q;
          covered_d[sender]     = last_q;
          has_covered_d[sender] = has_last_q;
          if (precedes(asked_q[sender], scan_q)) has_asked_d[sender] = 1'b0;
          if (kind_q == PassOnForMany && bounded && sends) begin
            has_asked_d[sender] = 1'b1;
            asked_d[sender]     = asks;
          end
          senders_d[sender] = 1'b0;
          state_d           = Next;
        end
      end
    endcase

    // A packet that a sender was asked for has come.
    for (int p = 0; p < PORTS; p++) begin
      if (came_i[p] && !precedes(asked_q[p], came_number_i)) has_asked_d[p] = 1'b0;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q       <= Next;
      senders_q     <= '0;
      has_covered_q <= '0;
      has_asked_q   <= '0;
    end else begin
      state_q       <= state_d;
      senders_q     <= start_i ? senders_i : senders_d;
      has_covered_q <= has_covered_d;
      has_asked_q   <= has_asked_d;
    end
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      kind_q     <= kind_i;
      number_q   <= number_i;
      syndrome_q <= syndrome_i;
    end
    scan_q     <= scan_d;
    last_q     <= last_d;
    has_last_q <= has_last_d;
    step_q     <= step_d;
    position_q <= position_d;
    covered_q  <= covered_d;
    asked_q    <= asked_d;
    if (begins_i) begin
      for (int p = 0; p < PORTS; p++) position_q[p] <= first_i;
    end
  end
endmodule

`default_nettype wire
