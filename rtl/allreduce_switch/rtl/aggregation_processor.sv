// Aggregation Processor (IV.D.1): counts the arrivals of an index, and adds the payloads of all ports when it is complete.
module aggregation_processor #(
    parameter int PORTS = 8,
    parameter int FLOWS = 4,
    parameter int FRAMES = 128
) (
    input  logic                                       clk_i,
    input  logic                                       rst_ni,
    input  logic                                       clear_i,
    input  logic                                       float_i,
    input  logic [PORTS-1:0]                           port_en_i,
    input  logic [4:0]                                 port_num_i,
    // The Frame IDX FIFOs.
    input  logic [PORTS-1:0]                           index_valid_i,
    output logic [PORTS-1:0]                           index_ready_o,
    input  logic [PORTS*$clog2(FLOWS*FRAMES)-1:0]      index_i,
    // The Frame Payload Buffers of all ports; words come two cycles later.
    output logic                                       payload_re_o,
    output logic [$clog2(FLOWS*FRAMES*128)-1:0]        payload_addr_o,
    input  logic [PORTS*64-1:0]                        payload_i,
    // The Aggregation Result Buffer.
    output logic                                       result_we_o,
    output logic [$clog2(FLOWS*FRAMES*128)-1:0]        result_addr_o,
    output logic [63:0]                                result_o,
    // Sums that are there, to the Aggregation Output Arbiter.
    output logic                                       done_valid_o,
    input  logic                                       done_ready_i,
    output logic [$clog2(FLOWS*FRAMES)-1:0]            done_index_o
);
  localparam int Places = FLOWS * FRAMES;
  localparam int IndexW = $clog2(Places);
  localparam int CountW = $clog2(PORTS + 1);

  // ---- CHECK: one arrival after the other, from each port in turn.
  typedef enum logic {
    Check,
    Count
  } state_e;

  state_e              state_q, state_d;
  logic [IndexW-1:0]   index_q, index_d;
  // The Aggregation Status Buffer.
  logic [Places*CountW-1:0] count_q, count_d;
  logic [CountW-1:0]   arrived;
  logic                any, take;
  logic [PORTS-1:0]    grant;
  logic [((PORTS > 1) ? $clog2(PORTS) : 1)-1:0] branch;
  logic                job_valid, job_ready;

  prim_arbiter_rr #(
      .N(PORTS)
  ) u_turn (
      .clk_i,
      .rst_ni,
      .req_i  (index_valid_i),
      .take_i (take),
      .valid_o(any),
      .gnt_o  (grant),
      .idx_o  (branch)
  );

  assign take          = state_q == Check && any;
  assign index_ready_o = take ? grant : '0;
  assign arrived       = count_q[index_q*CountW+:CountW] + 1'b1;

  always_comb begin
    state_d   = state_q;
    index_d   = index_q;
    count_d   = count_q;
    job_valid = 1'b0;
    case (state_q)
      Check: begin
        index_d = index_i[branch*IndexW+:IndexW];
        if (any) state_d = Count;
      end
      default: begin
        job_valid = 5'(arrived) == port_num_i;
        if (!job_valid) begin
          count_d[index_q*CountW+:CountW] = arrived;
          state_d = Check;
        end else if (job_ready) begin
          count_d[index_q*CountW+:CountW] = '0;
          state_d = Check;
        end
      end
    endcase
    if (clear_i) begin
      count_d = '0;
      state_d = Check;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Check;
      count_q <= '0;
    end else begin
      state_q <= state_d;
      count_q <= count_d;
    end
  end

  always_ff @(posedge clk_i) index_q <= index_d;

  // ---- Sums: a word of every port in each cycle.
  logic              job_waits, start;
  logic [IndexW-1:0] job;
  logic [4:0]        unused_job_free, done_free;
  logic              busy_q, busy_d;
  logic [IndexW-1:0] adding_q, adding_d;
  logic [6:0]        word_q, word_d;
  logic [1:0]        read_q;
  logic [2*(IndexW+7)-1:0] place_q;
  logic              out_valid, out_last, done_ready;
  logic [IndexW+6:0] out_place;
  logic [63:0]       out_data;

  prim_fifo_sync #(
      .WIDTH(IndexW),
      .DEPTH(16)
  ) u_jobs (
      .clk_i,
      .rst_ni,
      .clear_i,
      .valid_i(job_valid),
      .ready_o(job_ready),
      .data_i (index_q),
      .valid_o(job_waits),
      .ready_i(start),
      .data_o (job),
      .free_o (unused_job_free)
  );

  // A sum begins only where its end has a place: two are under way at most.
  assign start = job_waits && (!busy_q || word_q == 7'd127) && done_free >= 5'd4;

  always_comb begin
    busy_d   = busy_q;
    adding_d = adding_q;
    word_d   = word_q + 7'd1;
    if (busy_q && word_q == 7'd127) busy_d = 1'b0;
    if (start) begin
      busy_d   = 1'b1;
      adding_d = job;
      word_d   = 7'd0;
    end
    if (clear_i) busy_d = 1'b0;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      read_q <= '0;
    end else begin
      busy_q <= busy_d;
      read_q <= clear_i ? 2'd0 : {read_q[0], busy_q};
    end
  end

  always_ff @(posedge clk_i) begin
    adding_q <= adding_d;
    word_q   <= word_d;
    place_q  <= {place_q[IndexW+6:0], adding_q, word_q};
  end

  assign payload_re_o   = busy_q;
  assign payload_addr_o = {adding_q, word_q};

  aggregation_adder #(
      .PORTS(PORTS),
      .TAG_W(IndexW + 7)
  ) u_adder (
      .clk_i,
      .rst_ni,
      .clear_i,
      .float_i,
      .port_en_i,
      .valid_i(read_q[1]),
      .tag_i  (place_q[IndexW+7+:IndexW+7]),
      .data_i (payload_i),
      .valid_o(out_valid),
      .tag_o  (out_place),
      .data_o (out_data)
  );

  assign out_last      = out_valid && out_place[6:0] == 7'd127;
  assign result_we_o   = out_valid;
  assign result_addr_o = out_place;
  assign result_o      = out_data;

  prim_fifo_sync #(
      .WIDTH(IndexW),
      .DEPTH(16)
  ) u_done (
      .clk_i,
      .rst_ni,
      .clear_i,
      .valid_i(out_last),
      .ready_o(done_ready),
      .data_i (out_place[IndexW+6:7]),
      .valid_o(done_valid_o),
      .ready_i(done_ready_i),
      .data_o (done_index_o),
      .free_o (done_free)
  );

  logic unused_done;
  assign unused_done = done_ready;
endmodule
