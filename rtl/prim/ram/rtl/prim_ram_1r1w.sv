// A memory with one port to write and one to read (block RAM); what is read comes two cycles later.
module prim_ram_1r1w #(
    parameter int WIDTH = 64,
    parameter int DEPTH = 512
) (
    input  logic                     clk_i,
    input  logic                     we_i,
    input  logic [$clog2(DEPTH)-1:0] waddr_i,
    input  logic [WIDTH-1:0]         wdata_i,
    input  logic                     re_i,
    input  logic [$clog2(DEPTH)-1:0] raddr_i,
    output logic [WIDTH-1:0]         rdata_o
);
  if (DEPTH < 2) begin : gen_check
    expected_at_least_two_words_as_DEPTH u_stop ();
  end

  logic [WIDTH-1:0] mem_q[0:DEPTH-1];
  logic [WIDTH-1:0] read_q;

  always_ff @(posedge clk_i) begin
    if (we_i) mem_q[waddr_i] <= wdata_i;
    if (re_i) read_q <= mem_q[raddr_i];
    rdata_o <= read_q;
  end
endmodule
