// The in-switch accelerator of SCIN (3.4, figure 4): it reads operands from the accelerators'
// memories, adds them up and writes the results back. Instruction queue, barrier manager, wave
// controller, wave tables, tree-based accumulator, write-back.
`default_nettype none

module scin_isa #(
    // Accelerators, one a port.
    parameter int PORTS = 4,
    // Entries of each wave table, and bytes of one.
    parameter int WAVES = 8,
    parameter int WAVE_BYTES = 4096,
    // Most payload of a packet.
    parameter int PAYLOAD_BYTES = 4096,
    // Results that may await write responses.
    parameter int SLOTS = 8,
    // Instructions that may wait.
    parameter int INSTRUCTIONS = 16,
    // Whether there is a quantizer.
    parameter int QUANT = 0
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // Of the switch; element type; the accelerators' flag. They stay.
    input wire logic [11:0] node_i,
    input wire logic [1:0] type_i,
    input wire logic [15:0] flag_word_i,
    // The configuration interface.
    input wire logic instruction_valid_i,
    output logic instruction_ready_o,
    input wire logic [56+50*PORTS-1:0] instruction_i,
    // The ports.
    input wire logic [PORTS-1:0] rx_valid_i,
    input wire logic [PORTS-1:0] rx_last_i,
    input wire logic [PORTS*256-1:0] rx_flit_i,
    output logic [PORTS*2-1:0] tx_valid_o,
    output logic [PORTS*2-1:0] tx_last_o,
    input wire logic [PORTS*2-1:0] tx_ready_i,
    output logic [PORTS*512-1:0] tx_flit_o,
    // What happens.
    output logic started_o,
    output logic refused_o,
    output logic [15:0] id_o,
    output logic quiet_o,
    output logic [PORTS*3-1:0] drop_o
);
  localparam int ScaleBytes = (QUANT != 0) ? WAVE_BYTES / 32 : 0;
  localparam int ScaleFlits = (ScaleBytes > 32) ? ScaleBytes / 32 : 1;
  // One even of a wave that is too small, so that it is the check below that stops the build.
  localparam int Packets = (WAVE_BYTES > PAYLOAD_BYTES) ? WAVE_BYTES / PAYLOAD_BYTES : 1;
  localparam int Scales = (ScaleBytes + PAYLOAD_BYTES - 1) / PAYLOAD_BYTES;
  localparam int Places = Packets + Scales;
  // A result is a packet, or a quantised wave with its scales.
  localparam int ResultPlaces = (QUANT != 0) ? Places : 1;
  localparam int WaveFlits = WAVE_BYTES / 32;
  localparam int EntryW = (WAVES > 1) ? $clog2(WAVES) : 1;
  localparam int SlotW = (SLOTS > 1) ? $clog2(SLOTS) : 1;
  localparam int OffsetW = (Places > 1) ? $clog2(Places) : 1;
  localparam int SlotOffsetW = (ResultPlaces > 1) ? $clog2(ResultPlaces) : 1;
  localparam int PieceW = (Packets > 1) ? $clog2(Packets) : 1;
  localparam int LengthW = $clog2(WAVE_BYTES) + 1;
  localparam int WordW = $clog2(WAVES * WaveFlits);
  localparam int InstructionW = scin_isa_pkg::InstructionHeadW + 50 * PORTS;

  if (PORTS < 2 || PORTS > 8) begin : gen_check_ports
    expected_2_to_8_as_PORTS u_stop ();
  end
  if (WAVES < 1 || WAVES > 64 || SLOTS < 1 || SLOTS > 256) begin : gen_check_waves
    expected_1_to_64_as_WAVES_and_1_to_256_as_SLOTS u_stop ();
  end
  if (PAYLOAD_BYTES < 32 || PAYLOAD_BYTES > 4096 || (PAYLOAD_BYTES & (PAYLOAD_BYTES - 1)) != 0)
  begin : gen_check_payload
    expected_a_power_of_two_from_32_to_4096_as_PAYLOAD_BYTES u_stop ();
  end
  if (WAVE_BYTES < 64 || WAVE_BYTES > 32768 || (WAVE_BYTES & (WAVE_BYTES - 1)) != 0 ||
      WAVE_BYTES < PAYLOAD_BYTES)
  begin : gen_check_wave
    expected_a_power_of_two_from_PAYLOAD_BYTES_to_32768_as_WAVE_BYTES u_stop ();
  end
  if (QUANT != 0 && WAVE_BYTES < 1024) begin : gen_check_quant
    expected_at_least_1024_as_WAVE_BYTES_with_QUANT u_stop ();
  end

  // ---- Instructions.
  logic                    instruction_valid, instruction_ready;
  logic [InstructionW-1:0] instruction;
  logic [$clog2(INSTRUCTIONS):0] unused_instruction_free;

  prim_fifo_sync #(
      .WIDTH(InstructionW),
      .DEPTH(INSTRUCTIONS)
  ) u_instructions (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .valid_i(instruction_valid_i),
      .ready_o(instruction_ready_o),
      .data_i (instruction_i),
      .valid_o(instruction_valid),
      .ready_i(instruction_ready),
      .data_o (instruction),
      .free_o (unused_instruction_free)
  );

  logic [PORTS-1:0]    add;
  logic [PORTS*16-1:0] operand;
  logic [15:0]         arrived;
  logic                arrived_clear;

  barrier_manager #(
      .PORTS(PORTS)
  ) u_barrier (
      .clk_i,
      .rst_ni,
      .add_i    (add),
      .operand_i(operand),
      .clear_i  (arrived_clear),
      .count_o  (arrived)
  );

  logic                idle, take, take_quantised, notify, notify_ready;
  logic [PORTS-1:0]    take_sources, take_destinations;
  logic [LengthW-1:0]  take_length;
  logic [48*PORTS-1:0] take_address, take_scale_address;
  logic [31:0]         notified;
  logic [WAVES-1:0]    busy;
  logic [SLOTS-1:0]    pending;
  logic [PORTS-1:0]    job_ready, flag_job;
  logic [Places-1:0]   result_places;
  logic                unused_places;

  // Without quantised waves results are single packets.
  assign unused_places = ^result_places;
  assign quiet_o      = busy == '0 && pending == '0;
  // Flags go out to all participants at once, where there is room for them.
  assign flag_job     = (notify && notify_ready) ? take_sources | take_destinations : '0;
  assign notify_ready = ((take_sources | take_destinations) & ~job_ready) == '0;

  wave_controller #(
      .PORTS     (PORTS),
      .WAVE_BYTES(WAVE_BYTES),
      .QUANT     (QUANT)
  ) u_controller (
      .clk_i,
      .rst_ni,
      .type_i,
      .instruction_valid_i(instruction_valid),
      .instruction_ready_o(instruction_ready),
      .instruction_i      (instruction),
      .arrived_i          (arrived),
      .arrived_clear_o    (arrived_clear),
      .quiet_i            (quiet_o),
      .idle_i             (idle),
      .take_o             (take),
      .sources_o          (take_sources),
      .destinations_o     (take_destinations),
      .quantised_o        (take_quantised),
      .length_o           (take_length),
      .address_o          (take_address),
      .scale_address_o    (take_scale_address),
      .notify_o           (notify),
      .notify_ready_i     (notify_ready),
      .notified_o         (notified),
      .started_o,
      .refused_o,
      .id_o
  );

  // ---- Wave tables.
  logic [EntryW-1:0]         idle_entry, ready_entry, done_entry;
  logic [PieceW-1:0]         ready_piece;
  logic                      ready, read, done;
  logic [PORTS*EntryW-1:0]   rx_entry;
  logic [PORTS*OffsetW-1:0]  rx_place;
  logic [PORTS-1:0]          rx_awaited, rx_come;
  logic [Places-1:0]         take_places;
  logic [31:0]               take_packets, take_scale_packets;

  assign take_packets       = (32'(take_length) + PAYLOAD_BYTES - 1) / PAYLOAD_BYTES;
  assign take_scale_packets = take_quantised
      ? ((((32'(take_length) + 32'd63) >> 6) << 1) + PAYLOAD_BYTES - 1) / PAYLOAD_BYTES : 32'd0;
  always_comb begin
    for (int k = 0; k < Packets; k++) take_places[k] = 32'(k) < take_packets;
    for (int k = Packets; k < Places; k++) take_places[k] = 32'(k) < Packets + take_scale_packets;
  end

  table_manager #(
      .PORTS  (PORTS),
      .WAVES  (WAVES),
      .PACKETS(Packets),
      .SCALES (Scales)
  ) u_tables (
      .clk_i,
      .rst_ni,
      .idle_o        (idle),
      .idle_entry_o  (idle_entry),
      .take_i        (take),
      .take_sources_i(take_sources),
      .take_places_i (take_places),
      .take_whole_i  (take_quantised),
      .entry_i       (rx_entry),
      .place_i       (rx_place),
      .awaited_o     (rx_awaited),
      .come_i        (rx_come),
      .ready_o       (ready),
      .ready_entry_o (ready_entry),
      .ready_piece_o (ready_piece),
      .read_i        (read),
      .done_i        (done),
      .done_entry_i  (done_entry),
      .busy_o        (busy)
  );

  // What is known of each entry's wave.
  typedef struct packed {
    logic [PORTS-1:0]    sources;
    logic [PORTS-1:0]    destinations;
    logic                quantised;
    logic [48*PORTS-1:0] address;
    logic [48*PORTS-1:0] scale_address;
  } wave_t;

  wave_t                    waves_q[0:WAVES-1];
  wave_t                    wave;
  logic [WAVES*LengthW-1:0] lengths_q;

  always_ff @(posedge clk_i) begin
    if (take) begin
      waves_q[idle_entry] <= {take_sources, take_destinations, take_quantised, take_address,
                              take_scale_address};
      lengths_q[32'(idle_entry)*LengthW+:LengthW] <= take_length;
    end
  end
  assign wave = waves_q[ready_entry];

  // ---- Results.
  logic                         slot_free;
  logic [SlotW-1:0]             slot;
  logic [PORTS*SlotW-1:0]       rx_slot;
  logic [PORTS*SlotOffsetW-1:0] rx_slot_place;
  logic [PORTS-1:0]             rx_answer_awaited, rx_answer;

  result_manager #(
      .PORTS (PORTS),
      .SLOTS (SLOTS),
      .PLACES(ResultPlaces)
  ) u_results (
      .clk_i,
      .rst_ni,
      .free_o             (slot_free),
      .free_slot_o        (slot),
      .take_i             (read),
      .take_destinations_i(wave.destinations),
      .take_places_i      (result_places[ResultPlaces-1:0]),
      .slot_i             (rx_slot),
      .place_i            (rx_slot_place),
      .awaited_o          (rx_answer_awaited),
      .come_i             (rx_answer),
      .busy_o             (pending)
  );

  logic [PORTS-1:0]    result_job;
  logic [SlotW-1:0]    job_slot;
  logic [LengthW-1:0]  job_length;
  logic                job_quantised;
  logic [48*PORTS-1:0] job_address, job_scale_address;
  logic                re, word_valid, word_quantised, word_last, drained;
  logic [WordW-1:0]    word_address, scale_word_address;
  logic [PORTS-1:0]    word_sources, word_destinations;
  logic [5:0]          word_bytes;
  logic [3:0]          word_scale;

  wave_reader #(
      .PORTS        (PORTS),
      .WAVES        (WAVES),
      .WAVE_BYTES   (WAVE_BYTES),
      .PAYLOAD_BYTES(PAYLOAD_BYTES),
      .SCALE_BYTES  (ScaleBytes),
      .PACKETS      (Packets),
      .SCALES       (Scales),
      .SLOTS        (SLOTS)
  ) u_reader (
      .clk_i,
      .rst_ni,
      .ready_i            (ready),
      .entry_i            (ready_entry),
      .piece_i            (ready_piece),
      .read_o             (read),
      .done_o             (done),
      .done_entry_o       (done_entry),
      .sources_i          (wave.sources),
      .destinations_i     (wave.destinations),
      .quantised_i        (wave.quantised),
      .length_i           (lengths_q[32'(ready_entry)*LengthW+:LengthW]),
      .address_i          (wave.address),
      .scale_address_i    (wave.scale_address),
      .free_i             (slot_free),
      .slot_i             (slot),
      .places_o           (result_places),
      .job_ready_i        (job_ready),
      .job_valid_o        (result_job),
      .job_slot_o         (job_slot),
      .job_length_o       (job_length),
      .job_quantised_o    (job_quantised),
      .job_address_o      (job_address),
      .job_scale_address_o(job_scale_address),
      .re_o               (re),
      .address_o          (word_address),
      .scale_word_o       (scale_word_address),
      .valid_o            (word_valid),
      .quantised_o        (word_quantised),
      .last_o             (word_last),
      .sources_o          (word_sources),
      .destinations_o     (word_destinations),
      .bytes_o            (word_bytes),
      .scale_o            (word_scale),
      .drained_i          (drained)
  );

  // ---- The compute units.
  logic [PORTS*256-1:0] operands, scale_words;
  logic                 sum_valid, accumulator_empty;
  logic [PORTS-1:0]     sum_destinations;
  logic [255:0]         sum;
  logic                 out_valid, scales_valid;
  logic [PORTS-1:0]     out_destinations, scales_destinations;
  logic [255:0]         out_data, scales_data;

  tree_accumulator #(
      .PORTS(PORTS)
  ) u_accumulator (
      .clk_i,
      .rst_ni,
      .type_i,
      .valid_i       (word_valid && !word_quantised),
      .sources_i     (word_sources),
      .destinations_i(word_destinations),
      .data_i        (operands),
      .valid_o       (sum_valid),
      .destinations_o(sum_destinations),
      .data_o        (sum),
      .empty_o       (accumulator_empty)
  );

  if (QUANT != 0) begin : gen_quantizer
    logic             codes_valid, quantizer_empty;
    logic [PORTS-1:0] codes_destinations;
    logic [255:0]     codes;

    quantized_accumulator #(
        .PORTS(PORTS)
    ) u_quantizer (
        .clk_i,
        .rst_ni,
        .valid_i              (word_valid && word_quantised),
        .last_i               (word_last),
        .bytes_i              (word_bytes),
        .scale_i              (word_scale),
        .sources_i            (word_sources),
        .destinations_i       (word_destinations),
        .codes_i              (operands),
        .scales_i             (scale_words),
        .valid_o              (codes_valid),
        .destinations_o       (codes_destinations),
        .codes_o              (codes),
        .scales_valid_o       (scales_valid),
        .scales_destinations_o(scales_destinations),
        .scales_o             (scales_data),
        .empty_o              (quantizer_empty)
    );

    assign drained          = accumulator_empty && quantizer_empty && !word_valid;
    assign out_valid        = sum_valid || codes_valid;
    assign out_destinations = codes_valid ? codes_destinations : sum_destinations;
    assign out_data         = codes_valid ? codes : sum;
  end else begin : gen_no_quantizer
    logic unused_quantised;
    assign unused_quantised = ^{word_last, word_bytes, word_scale, scale_words, accumulator_empty};
    assign drained             = 1'b1;
    assign out_valid           = sum_valid;
    assign out_destinations    = sum_destinations;
    assign out_data            = sum;
    assign scales_valid        = 1'b0;
    assign scales_destinations = '0;
    assign scales_data         = '0;
  end

  // ---- What there is one of for each accelerator.
  for (genvar p = 0; p < PORTS; p++) begin : gen_port
    logic             rx_write, rx_write_scales;
    logic [WordW-1:0] rx_address;
    logic [255:0]     rx_data;

    isa_receiver #(
        .WAVES        (WAVES),
        .WAVE_BYTES   (WAVE_BYTES),
        .PAYLOAD_BYTES(PAYLOAD_BYTES),
        .SCALE_BYTES  (ScaleBytes),
        .SLOTS        (SLOTS),
        .OFFSET_W     (OffsetW),
        .SLOT_OFFSET_W(SlotOffsetW)
    ) u_receiver (
        .clk_i,
        .rst_ni,
        .node_i,
        .port_i         (12'(p)),
        .valid_i         (rx_valid_i[p]),
        .last_i          (rx_last_i[p]),
        .flit_i          (rx_flit_i[256*p+:256]),
        .lengths_i       (lengths_q),
        .entry_o         (rx_entry[p*EntryW+:EntryW]),
        .place_o         (rx_place[p*OffsetW+:OffsetW]),
        .awaited_i       (rx_awaited[p]),
        .come_o          (rx_come[p]),
        .slot_o          (rx_slot[p*SlotW+:SlotW]),
        .slot_place_o    (rx_slot_place[p*SlotOffsetW+:SlotOffsetW]),
        .answer_awaited_i(rx_answer_awaited[p]),
        .answer_o        (rx_answer[p]),
        .write_o         (rx_write),
        .write_scales_o  (rx_write_scales),
        .address_o       (rx_address),
        .data_o          (rx_data),
        .add_o           (add[p]),
        .operand_o       (operand[16*p+:16]),
        .drop_o          (drop_o[3*p+:3])
    );

    prim_ram_1r1w #(
        .WIDTH(256),
        .DEPTH(WAVES * WaveFlits)
    ) u_table (
        .clk_i,
        .we_i   (rx_write && !rx_write_scales),
        .waddr_i(rx_address),
        .wdata_i(rx_data),
        .re_i   (re),
        .raddr_i(word_address),
        .rdata_o(operands[256*p+:256])
    );

    if (QUANT != 0) begin : gen_scales
      localparam int ScaleWordW = (WAVES * ScaleFlits > 2) ? $clog2(WAVES * ScaleFlits) : 1;
      logic unused_high;

      prim_ram_1r1w #(
          .WIDTH(256),
          .DEPTH((WAVES * ScaleFlits > 2) ? WAVES * ScaleFlits : 2)
      ) u_scales (
          .clk_i,
          .we_i   (rx_write && rx_write_scales),
          .waddr_i(rx_address[ScaleWordW-1:0]),
          .wdata_i(rx_data),
          .re_i   (re),
          .raddr_i(scale_word_address[ScaleWordW-1:0]),
          .rdata_o(scale_words[256*p+:256])
      );
      assign unused_high = ^scale_word_address[WordW-1:ScaleWordW];
    end else begin : gen_no_scales
      logic unused_scales;
      assign scale_words[256*p+:256] = '0;
      assign unused_scales           = ^scale_word_address;
    end

    read_issuer #(
        .WAVES        (WAVES),
        .WAVE_BYTES   (WAVE_BYTES),
        .PAYLOAD_BYTES(PAYLOAD_BYTES),
        .SCALE_BYTES  (ScaleBytes),
        .OFFSET_W     (OffsetW)
    ) u_reads (
        .clk_i,
        .rst_ni,
        .node_i,
        .port_i         (12'(p)),
        .take_i         (take && take_sources[p]),
        .entry_i        (idle_entry),
        .length_i       (take_length),
        .quantised_i    (take_quantised),
        .address_i      (take_address[48*p+:48]),
        .scale_address_i(take_scale_address[48*p+:48]),
        .valid_o        (tx_valid_o[2*p]),
        .ready_i        (tx_ready_i[2*p]),
        .flit_o         (tx_flit_o[512*p+:256])
    );
    assign tx_last_o[2*p] = 1'b1;

    write_issuer #(
        .SLOTS        (SLOTS),
        .WAVE_BYTES   (WAVE_BYTES),
        .PAYLOAD_BYTES(PAYLOAD_BYTES),
        .SCALE_BYTES  (ScaleBytes),
        .OFFSET_W     (SlotOffsetW)
    ) u_writes (
        .clk_i,
        .rst_ni,
        .node_i,
        .port_i         (12'(p)),
        .flag_word_i,
        .job_ready_o        (job_ready[p]),
        .job_valid_i (result_job[p] || flag_job[p]),
        .job_flag_i         (notify),
        .job_value_i        (notified),
        .job_slot_i         (job_slot),
        .job_length_i       (job_length),
        .job_quantised_i    (job_quantised),
        .job_address_i      (job_address[48*p+:48]),
        .job_scale_address_i(job_scale_address[48*p+:48]),
        .data_valid_i       (out_valid && out_destinations[p]),
        .data_i             (out_data),
        .scales_valid_i     (scales_valid && scales_destinations[p]),
        .scales_i           (scales_data),
        .valid_o            (tx_valid_o[2*p+1]),
        .last_o             (tx_last_o[2*p+1]),
        .ready_i            (tx_ready_i[2*p+1]),
        .flit_o             (tx_flit_o[512*p+256+:256])
    );
  end
endmodule

`default_nettype wire
