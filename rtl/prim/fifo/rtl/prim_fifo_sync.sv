// A FIFO of one clock in a memory that is read by the clock (block RAM); what is written comes out two cycles later at the earliest.
module prim_fifo_sync #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 16
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    // Drops what is in it.
    input  logic             clear_i,
    input  logic             valid_i,
    output logic             ready_o,
    input  logic [WIDTH-1:0] data_i,
    output logic             valid_o,
    input  logic             ready_i,
    output logic [WIDTH-1:0] data_o,
    // Places that may be written without a pause.
    output logic [$clog2(DEPTH):0]   free_o
);
  localparam int AddrW = $clog2(DEPTH);

  if (DEPTH < 2 || (DEPTH & (DEPTH - 1)) != 0) begin : gen_check
    expected_a_power_of_two_as_DEPTH u_stop ();
  end

  logic [WIDTH-1:0] mem_q[0:DEPTH-1];
  logic [AddrW:0] wptr_q, wptr_d, rptr_q, rptr_d;
  logic [AddrW:0] level;
  logic           valid_q, valid_d;
  logic           write, read;
  logic [WIDTH-1:0] data_q;

  assign level   = wptr_q - rptr_q;
  assign free_o  = (AddrW + 1)'(DEPTH) - level;
  assign ready_o = !level[AddrW];
  assign write   = valid_i && ready_o;
  assign read    = (wptr_q != rptr_q) && (!valid_q || ready_i);

  always_comb begin
    wptr_d  = wptr_q;
    rptr_d  = rptr_q;
    valid_d = valid_q;
    if (write) wptr_d = wptr_q + 1'b1;
    if (read) rptr_d = rptr_q + 1'b1;
    if (read) valid_d = 1'b1;
    else if (ready_i) valid_d = 1'b0;
    if (clear_i) begin
      wptr_d  = '0;
      rptr_d  = '0;
      valid_d = 1'b0;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      wptr_q  <= '0;
      rptr_q  <= '0;
      valid_q <= 1'b0;
    end else begin
      wptr_q  <= wptr_d;
      rptr_q  <= rptr_d;
      valid_q <= valid_d;
    end
  end

  always_ff @(posedge clk_i) begin
    if (write) mem_q[wptr_q[AddrW-1:0]] <= data_i;
    if (read) data_q <= mem_q[rptr_q[AddrW-1:0]];
  end

  assign valid_o = valid_q;
  assign data_o  = data_q;
endmodule
