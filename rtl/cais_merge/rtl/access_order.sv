// Entries in the order of their last access: a list through all that are in it. Whoever is accessed
// is unlinked and appended, a cycle each.
`default_nettype none

module access_order #(
    parameter int ENTRIES = 320
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic unlink_i,
    input wire logic append_i,
    input wire logic [$clog2(ENTRIES)-1:0] number_i,
    output logic any_o,
    output logic [$clog2(ENTRIES)-1:0] oldest_o,
    // Whether `number_i` was accessed last of all, and who was accessed next after it if not.
    output logic newest_o,
    output logic [$clog2(ENTRIES)-1:0] newer_o
);
  localparam int NumberW = $clog2(ENTRIES);

  logic [NumberW-1:0] older_q[0:ENTRIES-1];
  logic [NumberW-1:0] newer_q[0:ENTRIES-1];
  logic [NumberW-1:0] oldest_q, newest_q, older;
  logic [NumberW:0]   listed_q;
  logic               is_oldest;

  assign any_o     = listed_q != '0;
  assign oldest_o  = oldest_q;
  assign older     = older_q[number_i];
  assign newer_o   = newer_q[number_i];
  assign is_oldest = number_i == oldest_q;
  assign newest_o  = number_i == newest_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      oldest_q <= '0;
      newest_q <= '0;
      listed_q <= '0;
    end else if (unlink_i) begin
      if (is_oldest) oldest_q <= newer_o;
      if (newest_o) newest_q <= older;
      listed_q <= listed_q - 1'b1;
    end else if (append_i) begin
      if (!any_o) oldest_q <= number_i;
      newest_q <= number_i;
      listed_q <= listed_q + 1'b1;
    end
  end

  // One place of each is written a cycle. What stands beyond an end may name one that is listed.
  always_ff @(posedge clk_i) begin
    if (unlink_i) begin
      if (!is_oldest) newer_q[older] <= newer_o;
      if (!newest_o) older_q[newer_o] <= older;
    end else if (append_i) begin
      newer_q[newest_q] <= number_i;
      older_q[number_i] <= newest_q;
    end
  end
endmodule

`default_nettype wire
