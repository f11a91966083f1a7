// Port Learning Stage of a port (IV.B): reads the addresses of a frame as it passes, learns the source and finds the ports of the destination.
module port_analyzer #(
    parameter int PORTS = 8,
    // The port that this one is of.
    parameter int PORT = 0
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic             valid_i,
    output logic             ready_o,
    // {abort, last, bytes - 1, data}
    input  logic [68:0]      beat_i,
    output logic             learn_o,
    output logic [47:0]      src_o,
    output logic [47:0]      dst_o,
    input  logic             known_i,
    input  logic [PORTS-1:0] port_i,
    output logic             valid_o,
    input  logic             ready_i,
    // {last, bytes - 1, data}
    output logic [67:0]      beat_o,
    // With the last beat: whether one port holds the destination, and where the frame goes; nowhere if it is dropped.
    output logic             known_o,
    output logic [PORTS-1:0] mask_o,
    output logic             runt_o,
    output logic             filtered_o
);
  // MacAna is the paper's MAC_ANA.
  typedef enum logic [1:0] {
    MacAna,
    Learn,
    Lookup,
    Send
  } state_e;

  state_e           state_q, state_d;
  // Beats of the frame that are gone, up to 2.
  logic [1:0]       count_q, count_d;
  logic [47:0]      dst_q, dst_d, src_q, src_d;
  logic [67:0]      last_q, last_d;
  logic             abort_q, abort_d, runt_q, runt_d, known_q, known_d;
  logic [PORTS-1:0] mask_q, mask_d;

  localparam logic [PORTS-1:0] Self = PORTS'(1) << PORT;

  always_comb begin
    state_d    = state_q;
    count_d    = count_q;
    dst_d      = dst_q;
    src_d      = src_q;
    last_d     = last_q;
    abort_d    = abort_q;
    runt_d     = runt_q;
    known_d    = known_q;
    mask_d     = mask_q;
    ready_o    = 1'b0;
    valid_o    = 1'b0;
    beat_o     = beat_i[67:0];
    learn_o    = 1'b0;
    runt_o     = 1'b0;
    filtered_o = 1'b0;
    case (state_q)
      MacAna: begin
        valid_o = valid_i && !beat_i[67];
        ready_o = beat_i[67] || ready_i;
        if (valid_i && ready_o) begin
          if (count_q == 2'd0) begin
            dst_d        = beat_i[47:0];
            src_d[15:0]  = beat_i[63:48];
            count_d      = 2'd1;
          end else if (count_q == 2'd1) begin
            src_d[47:16] = beat_i[31:0];
            count_d      = 2'd2;
          end
          if (beat_i[67]) begin
            // Two beats with 6 bytes in the second one are 14 bytes.
            runt_d  = count_q == 2'd0 || (count_q == 2'd1 && beat_i[66:64] < 3'd5);
            abort_d = beat_i[68];
            last_d  = beat_i[67:0];
            state_d = Learn;
          end
        end
      end
      Learn: begin
        learn_o = !abort_q && !runt_q && !src_q[0];
        state_d = Lookup;
      end
      Lookup: begin
        known_d = known_i && !abort_q && !runt_q;
        mask_d  = known_i ? port_i & ~Self : ~Self;
        if (abort_q || runt_q) mask_d = '0;
        runt_o     = runt_q && !abort_q;
        filtered_o = !abort_q && !runt_q && mask_d == '0;
        state_d    = Send;
      end
      default: begin
        valid_o = 1'b1;
        beat_o  = last_q;
        if (ready_i) begin
          count_d = 2'd0;
          state_d = MacAna;
        end
      end
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= MacAna;
      count_q <= '0;
      abort_q <= 1'b0;
      runt_q  <= 1'b0;
      known_q <= 1'b0;
      mask_q  <= '0;
    end else begin
      state_q <= state_d;
      count_q <= count_d;
      abort_q <= abort_d;
      runt_q  <= runt_d;
      known_q <= known_d;
      mask_q  <= mask_d;
    end
  end

  always_ff @(posedge clk_i) begin
    dst_q  <= dst_d;
    src_q  <= src_d;
    last_q <= last_d;
  end

  assign src_o   = src_q;
  assign dst_o   = dst_q;
  assign known_o = known_q;
  assign mask_o  = mask_q;
endmodule
