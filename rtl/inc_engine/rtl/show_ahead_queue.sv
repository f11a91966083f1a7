// A queue whose oldest word is seen before it is taken: the cycle after it was put in at the
// earliest, or in the same one.
`default_nettype none

module show_ahead_queue #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 8,
    // Whether a word that no other is before is seen as it is put in.
    parameter int AT_ONCE = 0
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic push_i,
    input wire logic [WIDTH-1:0] data_i,
    output logic room_o,
    output logic valid_o,
    output logic [WIDTH-1:0] data_o,
    input wire logic pop_i
);
  if (DEPTH < 2 || (DEPTH & (DEPTH - 1)) != 0) begin : gen_check
    expected_a_power_of_two_as_DEPTH u_stop ();
  end

  localparam int PlaceW = $clog2(DEPTH);

  logic [WIDTH-1:0] mem_q[0:DEPTH-1];
  logic [PlaceW:0]  in_q, out_q;

  assign room_o  = in_q != {!out_q[PlaceW], out_q[PlaceW-1:0]};

  if (AT_ONCE != 0) begin : gen_at_once
    assign valid_o = in_q != out_q || push_i;
    assign data_o  = (in_q != out_q) ? mem_q[out_q[PlaceW-1:0]] : data_i;
  end else begin : gen_next_cycle
    assign valid_o = in_q != out_q;
    assign data_o  = mem_q[out_q[PlaceW-1:0]];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      in_q  <= '0;
      out_q <= '0;
    end else begin
      if (push_i) in_q <= in_q + 1'b1;
      if (pop_i) out_q <= out_q + 1'b1;
    end
  end
  always_ff @(posedge clk_i) if (push_i) mem_q[in_q[PlaceW-1:0]] <= data_i;
endmodule

`default_nettype wire
