// What slot_table promises of packets and retransmissions that follow each other in every cycle: who
// contributes to a number is taken once while the number is in the valid range, whatever comes in
// between; a slot holds one number; and no slot is given to a number while it holds another one.
`default_nettype none

module prove_slot_table (
    input wire logic clk_i,
    input wire logic rst_ni,
    // A question in each cycle: of which number, from which of two ports.
    input wire logic [3:0] number_i,
    input wire logic port_i,
    // The range may move on by one.
    input wire logic moves_i,
    // What was looked up is taken, if it may be.
    input wire logic take_i
);
  logic [3:0] start_q, number_q;
  logic       hit, free, port_q, asked_q;
  logic       slot;
  logic [1:0] arrived;
  logic       in_range, duplicate, takes;

  slot_table #(
      .PORTS(2),
      .SLOTS(2),
      .SEQW (4)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .start_i        (start_q),
      .shares_i       (1'b0),
      .number_i,
      .hit_o          (hit),
      .slot_o         (slot),
      .free_o         (free),
      .arrived_o      (arrived),
      .write_i        (takes),
      .write_slot_i   (slot),
      .write_number_i (number_q),
      .write_arrived_i((hit ? arrived : 2'd0) | (2'd1 << port_q)),
      .release_i      (1'b0),
      .release_slot_i (1'b0)
  );

  // As the group does: what lies in the range of two numbers is taken, unless it has been.
  assign in_range  = number_q - start_q < 4'd2;
  assign duplicate = hit && arrived[port_q];
  assign takes     = asked_q && take_i && in_range && !duplicate && (hit || free);

  // One contribution, whichever: whether it has been taken.
  (* anyconst *) logic [3:0] chosen;
  (* anyconst *) logic       chosen_port;
  logic past_q = 1'b0;
  logic taken_q, moved_q;
  logic is_chosen;

  assign is_chosen = number_q == chosen && port_q == chosen_port;

  always_ff @(posedge clk_i) begin
    past_q   <= 1'b1;
    number_q <= number_i;
    port_q   <= port_i;
    asked_q  <= rst_ni;
    moved_q  <= moves_i;
    if (!rst_ni) begin
      start_q  <= 4'd0;
      taken_q  <= 1'b0;
    end else begin
      if (moves_i) start_q <= start_q + 4'd1;
      if (takes && is_chosen) begin
        taken_q <= 1'b1;
      end
    end
  end

  always_comb begin
    assume (rst_ni == past_q);
    // Numbers do not come again here.
    assume (start_q < 4'd5 || !moves_i);
    if (past_q && asked_q && in_range) begin
      // Known at once as a duplicate, the cycle after it was taken too.
      if (is_chosen) assert (duplicate == taken_q);
      // There is a slot for what is in the range; if that has just moved, a cycle later.
      if (!moved_q) assert (hit || free);
    end
  end
endmodule

`default_nettype wire
