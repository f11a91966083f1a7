// Writes to one accelerator (3.4): results in packets, the scales behind their data, and flags.
`default_nettype none

module write_issuer #(
    parameter int SLOTS = 8,
    parameter int WAVE_BYTES = 4096,
    parameter int PAYLOAD_BYTES = 4096,
    parameter int SCALE_BYTES = 0,
    parameter int OFFSET_W = 1
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // The switch, and the accelerator, whose number is the port's.
    input wire logic [prim_flit_pkg::NodeW-1:0] node_i,
    input wire logic [prim_flit_pkg::NodeW-1:0] port_i,
    input wire logic [15:0] flag_word_i,
    // The next result, whose slot there is room for; or the next flag.
    output logic job_ready_o,
    input wire logic job_valid_i,
    input wire logic job_flag_i,
    input wire logic [31:0] job_value_i,
    input wire logic [((SLOTS > 1) ? $clog2(SLOTS) : 1)-1:0] job_slot_i,
    input wire logic [$clog2(WAVE_BYTES):0] job_length_i,
    input wire logic job_quantised_i,
    input wire logic [47:0] job_address_i,
    input wire logic [47:0] job_scale_address_i,
    // Its flits, in the order of the jobs.
    input wire logic data_valid_i,
    input wire logic [255:0] data_i,
    input wire logic scales_valid_i,
    input wire logic [255:0] scales_i,
    // Packets.
    output logic valid_o,
    output logic last_o,
    input wire logic ready_i,
    output logic [255:0] flit_o
);
  localparam int SlotW = (SLOTS > 1) ? $clog2(SLOTS) : 1;
  localparam int LengthW = $clog2(WAVE_BYTES) + 1;
  localparam int Packets = WAVE_BYTES / PAYLOAD_BYTES;
  localparam int SlotFlits = ((SCALE_BYTES > 0) ? WAVE_BYTES : PAYLOAD_BYTES) / 32;
  localparam int SlotScales = (SCALE_BYTES > 32) ? SCALE_BYTES / 32 : 1;
  localparam int DataDepth = 1 << $clog2(SLOTS * SlotFlits + 1);
  localparam int ScaleDepth = 1 << $clog2(SLOTS * SlotScales + 1);
  localparam int JobDepth = 1 << $clog2(SLOTS + 1);

  typedef struct packed {
    logic               flag;
    logic [31:0]        value;
    logic [SlotW-1:0]   slot;
    logic [LengthW-1:0] length;
    logic               quantised;
    logic [47:0]        address;
    logic [47:0]        scale_address;
  } job_t;

  typedef enum logic {
    Header,
    Body
  } state_e;

  state_e                      state_q, state_d;
  job_t                        pushed, job;
  logic                        valid, pop, data_valid, data_pop, scale_valid, scale_pop;
  logic [255:0]                data, scale_data;
  logic [$clog2(JobDepth):0]   unused_job_free;
  logic [$clog2(DataDepth):0]  unused_data_free;
  logic                        unused_data_ready;
  // Bytes of the data or the scales whose packets have begun, flits of this packet that are left.
  logic [LengthW-1:0]          sent_q, sent_d, whole, rest, piece;
  logic [LengthW-1:0]          left_q, left_d;
  logic [OFFSET_W-1:0]         offset_q, offset_d, place;
  logic                        scales_q, scales_d, is_last, there, taken;
  prim_flit_pkg::header_t       header;

  assign pushed = {job_flag_i, job_value_i, job_slot_i, job_length_i, job_quantised_i,
                   job_address_i, job_scale_address_i};

  prim_fifo_sync #(
      .WIDTH(SlotW + LengthW + 130),
      .DEPTH(JobDepth)
  ) u_jobs (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .valid_i(job_valid_i),
      .ready_o(job_ready_o),
      .data_i (pushed),
      .valid_o(valid),
      .ready_i(pop),
      .data_o (job),
      .free_o (unused_job_free)
  );

  prim_fifo_sync #(
      .WIDTH(256),
      .DEPTH(DataDepth)
  ) u_data (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .valid_i(data_valid_i),
      .ready_o(unused_data_ready),
      .data_i (data_i),
      .valid_o(data_valid),
      .ready_i(data_pop),
      .data_o (data),
      .free_o (unused_data_free)
  );

  if (SCALE_BYTES > 0) begin : gen_scales
    logic                        unused_scale_ready;
    logic [$clog2(ScaleDepth):0] unused_scale_free;

    prim_fifo_sync #(
        .WIDTH(256),
        .DEPTH(ScaleDepth)
    ) u_scales (
        .clk_i,
        .rst_ni,
        .clear_i(1'b0),
        .valid_i(scales_valid_i),
        .ready_o(unused_scale_ready),
        .data_i (scales_i),
        .valid_o(scale_valid),
        .ready_i(scale_pop),
        .data_o (scale_data),
        .free_o (unused_scale_free)
    );
  end else begin : gen_no_scales
    logic unused_scales;
    assign scale_valid   = 1'b0;
    assign scale_data    = '0;
    assign unused_scales = ^{scales_valid_i, scales_i, scale_pop};
  end

  assign whole   = scales_q ? LengthW'(((32'(job.length) + 32'd63) >> 6) << 1) : job.length;
  assign rest    = whole - sent_q;
  assign is_last = 32'(rest) <= PAYLOAD_BYTES;
  assign piece   = is_last ? rest : LengthW'(PAYLOAD_BYTES);
  assign there   = scales_q ? scale_valid : data_valid;

  assign place = offset_q + (scales_q ? OFFSET_W'(Packets) : OFFSET_W'(0));

  always_comb begin
    header             = '0;
    header.inc         = 1'b1;
    header.source      = node_i;
    header.destination = port_i;
    if (job.flag) begin
      header.kind    = prim_flit_pkg::KindStore;
      header.address = 48'h8000_0000_0000 + {29'd0, flag_word_i, 3'd0};
      header.length  = 16'd8;
    end else begin
      header.kind    = prim_flit_pkg::KindWrite;
      header.address = (scales_q ? job.scale_address : job.address) + 48'(sent_q);
      header.length  = 16'(piece);
      header.tag = prim_flit_pkg::TagW'({job.slot, place});
    end
  end

  // A packet begins with its first flit there; the others follow one a cycle.
  assign valid_o = valid && (job.flag || there);
  assign last_o  = state_q == Body && (job.flag || left_q == LengthW'(1));
  assign taken   = valid_o && ready_i;

  always_comb begin
    if (state_q == Header) flit_o = {128'd0, prim_flit_pkg::swap(header)};
    else if (job.flag) flit_o = {192'd0, prim_flit_pkg::swap_word({32'd0, job.value})};
    else flit_o = scales_q ? scale_data : data;
  end

  always_comb begin
    state_d   = state_q;
    sent_d    = sent_q;
    left_d    = left_q;
    offset_d  = offset_q;
    scales_d  = scales_q;
    pop       = 1'b0;
    data_pop  = 1'b0;
    scale_pop = 1'b0;
    if (taken) begin
      if (state_q == Header) begin
        state_d = Body;
        left_d  = LengthW'((32'(piece) + 32'd31) >> 5);
      end else if (job.flag) begin
        state_d = Header;
        pop     = 1'b1;
      end else begin
        data_pop  = !scales_q;
        scale_pop = scales_q;
        left_d    = left_q - 1'b1;
        if (last_o) begin
          state_d  = Header;
          sent_d   = sent_q + piece;
          offset_d = offset_q + 1'b1;
          if (is_last) begin
            sent_d   = '0;
            offset_d = '0;
            scales_d = SCALE_BYTES > 0 && job.quantised && !scales_q;
            pop      = !scales_d;
          end
        end
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q  <= Header;
      sent_q   <= '0;
      offset_q <= '0;
      scales_q <= 1'b0;
    end else begin
      state_q  <= state_d;
      sent_q   <= sent_d;
      offset_q <= offset_d;
      scales_q <= scales_d;
    end
  end

  always_ff @(posedge clk_i) left_q <= left_d;
endmodule

`default_nettype wire
