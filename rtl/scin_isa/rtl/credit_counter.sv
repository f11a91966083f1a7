// Credits of one channel of a link: packets for which the receiver has room.
`default_nettype none

module credit_counter #(
    parameter int CREDITS = 8
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // A packet begins; only where there is a credit.
    input wire logic take_i,
    // The receiver has emptied a place.
    input wire logic give_i,
    output logic has_o
);
  localparam int CountW = $clog2(CREDITS + 1);

  if (CREDITS < 1) begin : gen_check
    expected_at_least_one_as_CREDITS u_stop ();
  end

  logic [CountW-1:0] count_q;

  assign has_o = count_q != '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) count_q <= CountW'(CREDITS);
    else if (take_i && !give_i) count_q <= count_q - 1'b1;
    else if (give_i && !take_i) count_q <= count_q + 1'b1;
  end
endmodule

`default_nettype wire
