// Requests for packets that leave, in order: reads the pages of one, a beat a cycle without a
// pause once it has begun.
`default_nettype none

module packet_reader #(
    parameter int PORTS = 8,
    parameter int MTU = 4096,
    parameter int DEPTH = 8,
    parameter int MARKW = 8,
    // What goes along with a request.
    parameter int TAG = 8,
    localparam int BeatsW = $clog2(MTU / 64) > 0 ? $clog2(MTU / 64) : 1
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    output logic ready_o,
    input wire logic push_i,
    input wire logic [15:0] length_i,
    input wire logic [PORTS-1:0] sources_i,
    input wire logic [PORTS-1:0] outs_i,
    input wire logic [PORTS*8-1:0] pages_i,
    input wire logic [TAG-1:0] tag_i,
    // It comes behind so many packets of the other reader.
    input wire logic [MARKW-1:0] behind_i,
    input wire logic [MARKW-1:0] other_done_i,
    // The oldest wants to begin; it may.
    output logic wants_o,
    output logic inside_o,
    output logic [PORTS-1:0] sources_o,
    output logic [PORTS-1:0] outs_o,
    output logic [15:0] beats_o,
    input wire logic may_i,
    // A beat is read.
    output logic read_o,
    output logic first_o,
    output logic last_o,
    output logic [PORTS*8-1:0] pages_o,
    output logic [BeatsW-1:0] beat_o,
    output logic [TAG-1:0] tag_o
);
  localparam int RequestW = 16 + 2 * PORTS + 8 * PORTS + TAG + MARKW;

  logic              valid, pop;
  logic [15:0]       length, beat_q;
  logic [MARKW-1:0]  behind, ahead;

  show_ahead_queue #(
      .WIDTH(RequestW),
      .DEPTH(DEPTH)
  ) u_queue (
      .clk_i,
      .rst_ni,
      .push_i,
      .data_i ({length_i, sources_i, outs_i, pages_i, tag_i, behind_i}),
      .room_o (ready_o),
      .valid_o(valid),
      .data_o ({length, sources_o, outs_o, pages_o, tag_o, behind}),
      .pop_i  (pop)
  );

  assign ahead    = other_done_i - behind;
  assign beats_o  = (length + 16'd63) >> 6;
  assign inside_o = beat_q != 16'd0;
  assign wants_o  = valid && !inside_o && !ahead[MARKW-1];
  assign read_o   = inside_o || (wants_o && may_i);
  assign first_o  = !inside_o;
  assign last_o   = beat_q + 16'd1 >= beats_o;
  assign beat_o   = BeatsW'(beat_q);
  assign pop      = read_o && last_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) beat_q <= '0;
    else if (pop) beat_q <= '0;
    else if (read_o) beat_q <= beat_q + 16'd1;
  end
endmodule

`default_nettype wire
