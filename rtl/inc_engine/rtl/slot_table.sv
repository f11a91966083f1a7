// CheckDuplicate: which slot holds a packet's number, and who has contributed to it. A slot is
// free once the valid range has moved past its number. An answer comes a cycle after its
// question, and what is written in the cycle of the question is in it already: packets and their
// retransmissions may follow each other in every cycle.
`default_nettype none

module slot_table #(
    parameter int PORTS = 8,
    parameter int SLOTS = 32,
    parameter int SEQW = 32,
    localparam int SlotW = $clog2(SLOTS)
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // The oldest number that may still be asked for.
    input wire logic [SEQW-1:0] start_i,
    // Broken rule: the slot where a number belongs is its own, whatever is in it.
    input wire logic shares_i,
    input wire logic [SEQW-1:0] number_i,
    output logic hit_o,
    // The slot that holds the number; if none does, one that is free.
    output logic [SlotW-1:0] slot_o,
    output logic free_o,
    // Who has contributed; what the slot's last use has left, if it is free.
    output logic [PORTS-1:0] arrived_o,
    input wire logic write_i,
    input wire logic [SlotW-1:0] write_slot_i,
    input wire logic [SEQW-1:0] write_number_i,
    input wire logic [PORTS-1:0] write_arrived_i,
    input wire logic release_i,
    input wire logic [SlotW-1:0] release_slot_i
);
  if (SLOTS < 2 || (SLOTS & (SLOTS - 1)) != 0) begin : gen_check
    expected_a_power_of_two_as_SLOTS u_stop ();
  end

  logic [SLOTS-1:0]       used_q, used_d, holds;
  logic [SLOTS*SEQW-1:0]  number_q, number_d;
  logic [SLOTS*PORTS-1:0] arrived_q, arrived_d;
  logic                   hit, free;
  logic [SlotW-1:0]       home, slot;
  logic [SEQW-1:0]        age;

  always_comb begin
    used_d    = used_q;
    number_d  = number_q;
    arrived_d = arrived_q;
    if (release_i) used_d[release_slot_i] = 1'b0;
    if (write_i) begin
      used_d[write_slot_i]                       = 1'b1;
      number_d[SEQW*32'(write_slot_i)+:SEQW]     = write_number_i;
      arrived_d[PORTS*32'(write_slot_i)+:PORTS]  = write_arrived_i;
    end
  end

  assign home = number_i[SlotW-1:0];

  always_comb begin
    hit  = 1'b0;
    free = 1'b0;
    slot = home;
    age  = '0;
    for (int s = 0; s < SLOTS; s++) begin
      age      = number_d[SEQW*s+:SEQW] - start_i;
      holds[s] = used_d[s] && !age[SEQW-1];
    end
    for (int s = SLOTS - 1; s >= 0; s--) begin
      if (!holds[s]) begin
        free = 1'b1;
        slot = SlotW'(s);
      end
    end
    if (!holds[home]) slot = home;
    for (int s = 0; s < SLOTS; s++) begin
      if (holds[s] && number_d[SEQW*s+:SEQW] == number_i) begin
        hit  = 1'b1;
        slot = SlotW'(s);
      end
    end
    if (shares_i) begin
      hit  = holds[home];
      free = 1'b1;
      slot = home;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) used_q <= '0;
    else used_q <= used_d;
  end
  always_ff @(posedge clk_i) begin
    number_q  <= number_d;
    arrived_q <= arrived_d;
    hit_o     <= hit;
    free_o    <= free;
    slot_o    <= slot;
    arrived_o <= arrived_d[PORTS*32'(slot)+:PORTS];
  end
endmodule

`default_nettype wire
