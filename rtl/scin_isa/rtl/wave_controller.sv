// Wave controller (3.4): fetches instructions, polls the barrier manager, makes waves for as long
// as there are idle entries, and has the participants' flags written when all that came before is
// done.
//
// An instruction: {ID, length, flags, an address of each accelerator, sources, destinations}; of a
// region the first address counts.
`default_nettype none

module wave_controller #(
    parameter int PORTS = 4,
    parameter int WAVE_BYTES = 4096,
    parameter int QUANT = 0
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic [1:0] type_i,
    // The instruction queue.
    input wire logic instruction_valid_i,
    output logic instruction_ready_o,
    input wire logic [56+50*PORTS-1:0] instruction_i,
    // The barrier manager.
    input wire logic [15:0] arrived_i,
    output logic arrived_clear_o,
    // No wave is in a table, and no result awaits a write response.
    input wire logic quiet_i,
    // The next wave, which the table manager takes into an idle entry.
    input wire logic idle_i,
    output logic take_o,
    output logic [PORTS-1:0] sources_o,
    output logic [PORTS-1:0] destinations_o,
    output logic quantised_o,
    output logic [$clog2(WAVE_BYTES):0] length_o,
    output logic [48*PORTS-1:0] address_o,
    output logic [48*PORTS-1:0] scale_address_o,
    // Flags to be written, to all participants at once.
    output logic notify_o,
    input wire logic notify_ready_i,
    output logic [31:0] notified_o,
    // Of the instruction with this ID: it begins; it cannot be run, and is dropped, with its scales
    // if it is quantised.
    output logic started_o,
    output logic refused_o,
    output logic [15:0] id_o
);
  localparam int LengthW = $clog2(WAVE_BYTES) + 1;
  localparam int CountW = $clog2(PORTS + 1);

  typedef enum logic [2:0] {
    Fetch,
    Scales,
    Skip,
    Barrier,
    Run,
    Notify
  } state_e;

  state_e              state_q, state_d;
  // Of the queue's oldest instruction.
  logic [15:0]         id;
  logic [31:0]         length, left;
  logic [26:0]         blocks;
  logic [1:0]          elements;
  logic [7:0]          flags;
  logic [48*PORTS-1:0] given, addresses;
  logic [PORTS-1:0]    sources, destinations, beyond;
  logic                bad, bad_scales;
  // Of the one that runs.
  logic [15:0]         id_q;
  logic [31:0]         length_q, offset_q, offset_d, notified_q;
  logic [PORTS-1:0]    sources_q, destinations_q;
  logic                quantise_q, wait_q, notify_q;
  logic [48*PORTS-1:0] addresses_q, scale_addresses_q;
  logic [CountW-1:0]   participants;
  logic                latch, latch_scales;

  assign {id, length, flags, given, sources, destinations} = instruction_i;

  for (genvar p = 0; p < PORTS; p++) begin : gen_address
    // The vector ends within 48 bits.
    logic [48:0] room;
    assign room = 49'h0_FFFF_FFFF_FFFF - {1'b0, addresses[48*p+:48]};
    assign addresses[48*p+:48] = flags[scin_isa_pkg::FlagRegion] ? given[47:0] : given[48*p+:48];
    assign beyond[p] = (sources[p] || destinations[p]) && 49'(length) > room;

    assign address_o[48*p+:48] = addresses_q[48*p+:48] + 48'(offset_q);
    // Two bytes for each block.
    assign scale_address_o[48*p+:48] = scale_addresses_q[48*p+:48] + 48'({offset_q[31:6], 1'b0});
  end

  // The checks of the engine (instruction.rs, check), which are made when an instruction is loaded
  // there.
  always_comb begin
    elements = (type_i == prim_half_pkg::TypeF32) ? length[1:0] : {1'b0, length[0]};
    bad = sources == '0 || destinations == '0 || beyond != '0 || flags[7:4] != '0;
    if (flags[scin_isa_pkg::FlagQuantEnable]) begin
      if (QUANT == 0) bad = 1'b1;
    end else if (elements != '0) begin
      bad = 1'b1;
    end
    blocks     = {1'b0, length_q[31:6]} + 27'(length_q[5:0] != 6'd0);
    bad_scales = sources != sources_q || destinations != destinations_q || beyond != '0
        || flags[7:4] != '0 || flags[scin_isa_pkg::FlagQuantEnable]
        || flags[scin_isa_pkg::FlagWait] || flags[scin_isa_pkg::FlagNotify]
        || length != {4'd0, blocks, 1'b0};
  end

  always_comb begin
    participants = '0;
    for (int p = 0; p < PORTS; p++) begin
      participants = participants + CountW'(sources_q[p] || destinations_q[p]);
    end
  end

  assign sources_o      = sources_q;
  assign destinations_o = destinations_q;
  assign quantised_o    = quantise_q;
  assign left           = length_q - offset_q;
  assign length_o       = (left > 32'(WAVE_BYTES)) ? LengthW'(WAVE_BYTES) : LengthW'(left);
  assign notified_o     = notified_q + 32'd1;
  assign id_o           = (state_q == Fetch) ? id : id_q;

  always_comb begin
    state_d             = state_q;
    offset_d            = offset_q;
    instruction_ready_o = 1'b0;
    latch               = 1'b0;
    latch_scales        = 1'b0;
    arrived_clear_o     = 1'b0;
    take_o              = 1'b0;
    notify_o            = 1'b0;
    started_o           = 1'b0;
    refused_o           = 1'b0;
    unique case (state_q)
      Fetch: begin
        instruction_ready_o = instruction_valid_i;
        latch               = instruction_valid_i;
        offset_d            = '0;
        if (instruction_valid_i) begin
          refused_o = bad;
          if (flags[scin_isa_pkg::FlagQuantEnable]) state_d = bad ? Skip : Scales;
          else if (!bad) state_d = Barrier;
        end
      end
      Scales: begin
        instruction_ready_o = instruction_valid_i;
        latch_scales        = instruction_valid_i;
        if (instruction_valid_i) begin
          refused_o = bad_scales;
          state_d   = bad_scales ? Fetch : Barrier;
        end
      end
      Skip: begin
        instruction_ready_o = instruction_valid_i;
        if (instruction_valid_i) state_d = Fetch;
      end
      Barrier: begin
        if (!wait_q || (quiet_i && arrived_i >= 16'(participants))) begin
          arrived_clear_o = wait_q;
          started_o       = 1'b1;
          state_d         = Run;
        end
      end
      Run: begin
        if (offset_q == length_q) begin
          state_d = notify_q ? Notify : Fetch;
        end else if (idle_i) begin
          take_o   = 1'b1;
          offset_d = offset_q + 32'(length_o);
        end
      end
      default: begin
        notify_o = quiet_i;
        if (quiet_i && notify_ready_i) state_d = Fetch;
      end
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q    <= Fetch;
      notified_q <= '0;
    end else begin
      state_q <= state_d;
      if (notify_o && notify_ready_i) notified_q <= notified_o;
    end
  end

  always_ff @(posedge clk_i) begin
    offset_q <= offset_d;
    if (latch) begin
      id_q           <= id;
      length_q       <= length;
      sources_q      <= sources;
      destinations_q <= destinations;
      quantise_q     <= flags[scin_isa_pkg::FlagQuantEnable];
      wait_q         <= flags[scin_isa_pkg::FlagWait];
      notify_q       <= flags[scin_isa_pkg::FlagNotify];
      addresses_q    <= addresses;
    end
    if (latch_scales) scale_addresses_q <= addresses;
  end
endmodule

`default_nettype wire
