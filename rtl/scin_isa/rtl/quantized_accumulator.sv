// Dequantizer, accumulator and quantizer (3.4, item 4): codes of eight bits in blocks of 64 with a
// binary16 scale. Sources are added in binary32 from the first to the last, as the engine does it.
// A flit a cycle; the flits of a block follow each other.
`default_nettype none

module quantized_accumulator #(
    parameter int PORTS = 4
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic valid_i,
    // The last flit of a wave, bytes of the flit that count, and the place of its scale in the word
    // of scales.
    input wire logic last_i,
    input wire logic [5:0] bytes_i,
    input wire logic [3:0] scale_i,
    input wire logic [PORTS-1:0] sources_i,
    input wire logic [PORTS-1:0] destinations_i,
    input wire logic [PORTS*256-1:0] codes_i,
    input wire logic [PORTS*256-1:0] scales_i,
    output logic valid_o,
    output logic [PORTS-1:0] destinations_o,
    output logic [255:0] codes_o,
    // Sixteen scales, or those that a wave ends with.
    output logic scales_valid_o,
    output logic [PORTS-1:0] scales_destinations_o,
    output logic [255:0] scales_o,
    output logic empty_o
);
  localparam int AddCycles = 5;
  // Codes are there after one cycle, values after another one, sums after the additions.
  localparam int SumCycles = 2 + AddCycles * (PORTS - 1);
  localparam int MaxCycles = 2;
  localparam int ScaleCycles = 4;
  localparam int CodeCycles = 6;
  // A value waits for the maximum, for the second flit of its block, and for the scale.
  localparam int WaitCycles = MaxCycles + 1 + ScaleCycles;
  localparam int MetCycles = SumCycles + WaitCycles;
  localparam int Cycles = MetCycles + CodeCycles;

  // ---- What is known of a flit, on its way beside it.
  typedef struct packed {
    logic             half;
    logic             last;
    logic [3:0]       scale;
    logic [PORTS-1:0] destinations;
  } flit_t;
  localparam int FlitTW = 6 + PORTS;

  logic [Cycles-1:0]        valid_q;
  logic [Cycles*FlitTW-1:0] flits_q;
  flit_t                    now;
  // The next flit is the second of its block.
  logic                     half_q;

  always_comb begin
    now              = '0;
    now.half         = half_q;
    now.last         = last_i;
    now.scale        = scale_i;
    now.destinations = destinations_i;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= '0;
      half_q  <= 1'b0;
    end else begin
      valid_q <= {valid_q[Cycles-2:0], valid_i};
      if (valid_i) half_q <= !half_q && !last_i;
    end
  end
  always_ff @(posedge clk_i) flits_q <= {flits_q[(Cycles-1)*FlitTW-1:0], now};

  // ---- Dequantise and add: one source behind the other.
  logic [1023:0] sums[0:PORTS-1];

  for (genvar p = 0; p < PORTS; p++) begin : gen_source
    // The first two are added first.
    localparam int Later = (p > 1) ? AddCycles * (p - 1) : 0;
    localparam int W = 256 + 16 + 1;
    logic [255:0]              codes;
    logic [15:0]               scale;
    logic [(Later+1)*W-1:0]    delay_q;
    logic [1023:0]             values;

    always_comb begin
      for (int i = 0; i < 32; i++) codes[8*i+:8] = (6'(i) < bytes_i) ? codes_i[256*p+8*i+:8] : 8'd0;
    end
    assign scale = scales_i[256*p+16*32'(scale_i)+:16];

    if (Later == 0) begin : gen_now
      always_ff @(posedge clk_i) delay_q <= {sources_i[p], scale, codes};
    end else begin : gen_later
      always_ff @(posedge clk_i) delay_q <= {delay_q[Later*W-1:0], sources_i[p], scale, codes};
    end

    for (genvar i = 0; i < 32; i++) begin : gen_lane
      dequantizer u_value (
          .clk_i,
          .there_i(delay_q[Later*W+272]),
          .code_i (delay_q[Later*W+8*i+:8]),
          .scale_i(delay_q[Later*W+256+:16]),
          .value_o(values[32*i+:32])
      );
      if (p > 0) begin : gen_add
        prim_add_fp32 u_add (
            .clk_i,
            .a_i  (sums[p-1][32*i+:32]),
            .b_i  (values[32*i+:32]),
            .sum_o(sums[p][32*i+:32])
        );
      end
    end
    if (p == 0) begin : gen_first
      assign sums[p] = values;
    end
  end

  // ---- The largest magnitude of a flit, in two steps, and of a block.
  logic [1023:0]   total;
  logic [8*31-1:0] eight_d, eight_q;
  logic [30:0]     most_d, most_q, first_q, block;
  flit_t           at_max;
  logic            second_follows;

  assign total = sums[PORTS-1];

  always_comb begin
    eight_d = '0;
    for (int i = 0; i < 32; i++) begin
      if (total[32*i+:31] > eight_d[31*(i/4)+:31]) eight_d[31*(i/4)+:31] = total[32*i+:31];
    end
    most_d = '0;
    for (int i = 0; i < 8; i++) if (eight_q[31*i+:31] > most_d) most_d = eight_q[31*i+:31];
  end

  always_ff @(posedge clk_i) begin
    eight_q <= eight_d;
    most_q  <= most_d;
    first_q <= most_q;
  end

  // The flit whose maximum is in most_q; the one before it is in first_q.
  assign at_max         = flits_q[(SumCycles+MaxCycles-1)*FlitTW+:FlitTW];
  assign second_follows = valid_q[SumCycles+MaxCycles-1] && at_max.half;
  assign block          = (second_follows && most_q > first_q) ? most_q : first_q;

  logic [15:0] scale, scale_q, met_scale;

  block_scale u_scale (
      .clk_i,
      .magnitude_i(block),
      .scale_o    (scale)
  );

  // ---- Values meet the scale of their block, which the second flit finds kept.
  logic [WaitCycles*1024-1:0] waiting_q;
  flit_t                      met, out;

  always_ff @(posedge clk_i) begin
    waiting_q <= {waiting_q[(WaitCycles-1)*1024-1:0], total};
    scale_q   <= met_scale;
  end
  assign met       = flits_q[(MetCycles-1)*FlitTW+:FlitTW];
  assign met_scale = met.half ? scale_q : scale;

  for (genvar i = 0; i < 32; i++) begin : gen_code
    code_divider u_code (
        .clk_i,
        .value_i(waiting_q[(WaitCycles-1)*1024+32*i+:32]),
        .scale_i(met_scale),
        .code_o (codes_o[8*i+:8])
    );
  end

  // ---- Out: codes, and a word of scales with the last of its blocks.
  logic [CodeCycles*16-1:0] scales_q;
  logic [255:0]             word_q;

  always_ff @(posedge clk_i) begin
    scales_q <= {scales_q[(CodeCycles-1)*16-1:0], met_scale};
    word_q   <= scales_o;
  end
  assign out            = flits_q[(Cycles-1)*FlitTW+:FlitTW];
  assign valid_o        = valid_q[Cycles-1];
  assign destinations_o = out.destinations;
  assign empty_o        = valid_q == '0;

  always_comb begin
    scales_o = word_q;
    scales_o[16*32'(out.scale)+:16] = scales_q[(CodeCycles-1)*16+:16];
  end
  assign scales_valid_o        = valid_o && (out.last || (out.half && out.scale == 4'd15));
  assign scales_destinations_o = out.destinations;

  logic unused_flits;
  assign unused_flits = ^{at_max.last, at_max.scale, at_max.destinations, met.last, met.scale,
                          met.destinations};
endmodule

`default_nettype wire
