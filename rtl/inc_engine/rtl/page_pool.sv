// The free pages of a port's memory. A page that a packet has left may still have to be read for
// requests that came before: it is free when both readers have done so many. Nobody waits for it.
`default_nettype none

module page_pool #(
    parameter int SLOTS = 32,
    // Pages beside one for each slot.
    parameter int SPARE = 8,
    parameter int MARKW = 32
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    output logic valid_o,
    output logic [7:0] page_o,
    input wire logic take_i,
    input wire logic release_i,
    input wire logic [7:0] release_page_i,
    // Requests made of each reader up to now, this cycle's too, and those that they have read.
    input wire logic [MARKW-1:0] fold_made_i,
    input wire logic [MARKW-1:0] forward_made_i,
    input wire logic [MARKW-1:0] fold_read_i,
    input wire logic [MARKW-1:0] forward_read_i
);
  if (SPARE < 2 || (SPARE & (SPARE - 1)) != 0) begin : gen_check
    expected_a_power_of_two_as_SPARE u_stop ();
  end

  localparam int PlaceW = $clog2(SPARE);

  // A ring: from out_q on are free pages, from wait_q on those that are still to be read.
  logic [8*SPARE-1:0]     page_q;
  logic [MARKW*SPARE-1:0] fold_q, forward_q;
  logic [PlaceW:0]        in_q, wait_q, out_q;
  logic [PlaceW-1:0]      in, waiting, out;
  logic [MARKW-1:0]       fold_left, forward_left;
  logic                   is_read;

  assign in           = in_q[PlaceW-1:0];
  assign waiting      = wait_q[PlaceW-1:0];
  assign out          = out_q[PlaceW-1:0];
  assign fold_left    = fold_read_i - fold_q[MARKW*32'(waiting)+:MARKW];
  assign forward_left = forward_read_i - forward_q[MARKW*32'(waiting)+:MARKW];
  assign is_read      = wait_q != in_q && !fold_left[MARKW-1] && !forward_left[MARKW-1];
  assign valid_o      = out_q != wait_q;
  assign page_o       = page_q[8*32'(out)+:8];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      in_q   <= (PlaceW + 1)'(SPARE);
      wait_q <= (PlaceW + 1)'(SPARE);
      out_q  <= '0;
      for (int i = 0; i < SPARE; i++) page_q[8*i+:8] <= 8'(SLOTS + i);
    end else begin
      if (release_i) begin
        in_q                 <= in_q + 1'b1;
        page_q[8*32'(in)+:8] <= release_page_i;
      end
      if (is_read) wait_q <= wait_q + 1'b1;
      if (take_i) out_q <= out_q + 1'b1;
    end
  end
  always_ff @(posedge clk_i) begin
    if (release_i) begin
      fold_q[MARKW*32'(in)+:MARKW]    <= fold_made_i;
      forward_q[MARKW*32'(in)+:MARKW] <= forward_made_i;
    end
  end
endmodule

`default_nettype wire
