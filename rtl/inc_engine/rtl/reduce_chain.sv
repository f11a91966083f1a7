// AggregateData: adds up beats of all contributions to a packet, one after the other in a given
// order: the first two, then each further one to their sum. A beat a cycle goes in and comes out.
`default_nettype none

module reduce_chain #(
    parameter int PORTS = 8,
    parameter int INSIDE_F32 = 0,
    // What goes along with a beat.
    parameter int TAG = 8,
    localparam int PortW = $clog2(PORTS)
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic valid_i,
    input wire inc_engine_pkg::reduction_t reduction_i,
    input wire logic [PortW:0] count_i,
    input wire logic [PORTS*PortW-1:0] order_i,
    input wire logic [PORTS*512-1:0] data_i,
    input wire logic [TAG-1:0] tag_i,
    // A cycle before the beat.
    output logic soon_o,
    output logic [TAG-1:0] soon_tag_o,
    output logic valid_o,
    output logic [TAG-1:0] tag_o,
    output logic [511:0] data_o
);
  import inc_engine_pkg::*;

  localparam int Lanes = 16;
  localparam int Cycles = 5;
  localparam int ControlW = 4 + PortW + 1;

  function automatic logic [63:0] widen(input logic [1:0] data_type, input logic [31:0] word);
    unique case (data_type)
      TypeF16: begin
        widen = {prim_half_pkg::widen_f16(word[31:16]), prim_half_pkg::widen_f16(word[15:0])};
      end
      TypeBf16: widen = {word[31:16], 16'd0, word[15:0], 16'd0};
      default: widen = {32'd0, word};
    endcase
  endfunction

  // The contributions in their order. One alone stays as it is, whatever it is.
  logic [PORTS*512-1:0] placed_q;
  logic [ControlW-1:0]  control_q;

  always_ff @(posedge clk_i) begin
    for (int k = 0; k < PORTS; k++) begin
      placed_q[512*k+:512] <= data_i[512*32'(order_i[PortW*k+:PortW])+:512];
    end
    control_q <= {(count_i == (PortW + 1)'(1)) ? {OpOr, TypeI32} : reduction_i, count_i};
  end

  // Control and operands of each stage, when it is their turn.
  logic [PORTS*ControlW-1:0] control;
  logic [PORTS*512-1:0]      operand;
  logic [PORTS*Lanes*64-1:0] sum;

  logic unused_bits;
  assign unused_bits = ^{control[ControlW*(PORTS-1)+:ControlW], operand[511:0]};
  assign control[0+:ControlW] = control_q;
  assign operand              = placed_q_late;
  logic [PORTS*512-1:0] placed_q_late;

  for (genvar l = 0; l < Lanes; l++) begin : gen_first
    assign sum[64*l+:64] = widen(control_q[PortW+1+:2], placed_q[32*l+:32]);
  end
  assign placed_q_late[0+:512] = placed_q[0+:512];

  for (genvar k = 1; k < PORTS; k++) begin : gen_stage
    reduction_t reduction;
    logic       pass;

    // An operand waits for the sums before it.
    if (k == 1) begin : gen_now
      assign placed_q_late[512*k+:512] = placed_q[512*k+:512];
    end else begin : gen_later
      delay_line #(
          .WIDTH (512),
          .CYCLES(Cycles * (k - 1))
      ) u_operand (
          .clk_i,
          .rst_ni,
          .data_i(placed_q[512*k+:512]),
          .data_o(placed_q_late[512*k+:512])
      );
    end

    delay_line #(
        .WIDTH (ControlW),
        .CYCLES(Cycles)
    ) u_control (
        .clk_i,
        .rst_ni,
        .data_i(control[ControlW*(k-1)+:ControlW]),
        .data_o(control[ControlW*k+:ControlW])
    );

    assign reduction = control[ControlW*(k-1)+PortW+1+:4];
    assign pass      = control[ControlW*(k-1)+:PortW+1] <= (PortW + 1)'(k);

    for (genvar l = 0; l < Lanes; l++) begin : gen_lane
      reduce_lane #(
          .INSIDE_F32(INSIDE_F32)
      ) u_lane (
          .clk_i,
          .reduction_i(reduction),
          .pass_i     (pass),
          .a_i        (sum[64*(Lanes*(k-1)+l)+:64]),
          .b_i        (widen(reduction.data_type, operand[512*k+32*l+:32])),
          .c_o        (sum[64*(Lanes*k+l)+:64])
      );
    end
  end

  // Narrowed again.
  always_comb begin
    for (int l = 0; l < Lanes; l++) begin
      unique case (control[ControlW*(PORTS-1)+PortW+1+:2])
        TypeF16: begin
          data_o[32*l+:32] = {prim_half_pkg::narrow_f16(sum[64*(Lanes*(PORTS-1)+l)+32+:32]),
                              prim_half_pkg::narrow_f16(sum[64*(Lanes*(PORTS-1)+l)+:32])};
        end
        TypeBf16: begin
          data_o[32*l+:32] = {prim_half_pkg::narrow_bf16(sum[64*(Lanes*(PORTS-1)+l)+32+:32]),
                              prim_half_pkg::narrow_bf16(sum[64*(Lanes*(PORTS-1)+l)+:32])};
        end
        default: data_o[32*l+:32] = sum[64*(Lanes*(PORTS-1)+l)+:32];
      endcase
    end
  end

  // What goes along takes the same time: the crossbar's cycle, and the stages'.
  localparam int Total = Cycles * (PORTS - 1) + 1;
  logic [Total-1:0] valid_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Total-2:0], valid_i};
  end

  delay_line #(
      .WIDTH (TAG),
      .CYCLES(Total - 1)
  ) u_tag (
      .clk_i,
      .rst_ni,
      .data_i(tag_i),
      .data_o(soon_tag_o)
  );

  always_ff @(posedge clk_i) tag_o <= soon_tag_o;

  assign soon_o  = valid_q[Total-2];
  assign valid_o = valid_q[Total-1];
endmodule

`default_nettype wire
