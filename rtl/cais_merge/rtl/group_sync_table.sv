// The group sync table of a switch (CAIS III-B3): who of a group of thread blocks has come to a
// point; and the boundaries of streams, at which the switch forgets what it caches (ours). When all
// have come, all are released; and those that are there, when one is awaited for too long, or when
// there is no room to wait.
`default_nettype none

module group_sync_table #(
    parameter int PORTS = 8,
    parameter int GROUPS = 1024,
    parameter int STREAMS = 8,
    // Cycles.
    parameter int TIMEOUT = 100000,
    parameter int BREAKABLE = 0
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic [11:0] node_i,
    // Rules that can be broken (mutation.rs): the last to come is not told, a boundary does not wait
    // for the last one.
    input wire logic forgets_last_i,
    input wire logic boundary_short_i,
    // Syncs, and from which port they come.
    input wire logic header_valid_i,
    output logic header_ready_o,
    input wire prim_flit_pkg::header_t header_i,
    input wire logic [3:0] port_i,
    // What is cached is to be forgotten.
    output logic forget_o,
    input wire logic forgotten_i,
    // Releases: packets of a flit, and for which port.
    output logic valid_o,
    input wire logic ready_i,
    output logic [3:0] port_o,
    output logic [cais_pkg::FlitW-1:0] flit_o,
    // A sync has been decided, a group has timed out: when that was judged, and how.
    output logic decided_o,
    output logic expired_o,
    output logic [31:0] at_o,
    output cais_pkg::drop_e drop_o,
    output logic idle_o
);
  localparam int NumberW = $clog2(GROUPS);
  localparam int StreamW = (STREAMS > 1) ? $clog2(STREAMS) : 1;
  localparam int KeyW = 48 + 24;

  if (GROUPS < 2 || GROUPS > 1024) begin : gen_groups
    expected_2_to_1024_as_GROUPS u_stop ();
  end
  if (STREAMS < 1 || STREAMS > 64) begin : gen_streams
    expected_1_to_64_as_STREAMS u_stop ();
  end
  if (TIMEOUT < 16) begin : gen_timeout
    expected_16_cycles_or_more_as_TIMEOUT u_stop ();
  end

  typedef enum logic [3:0] {
    Idle,
    Search,
    Found,
    Fetch,
    Decide,
    AtBoundary,
    Forgets,
    Insert,
    Free,
    Tell
  } state_e;

  state_e                 state_q, state_d;
  prim_flit_pkg::header_t header_q;
  logic [3:0]             port_q;
  logic [31:0]            time_q, at_q, age;
  logic [NumberW-1:0]     number_q, number_d;
  logic                   expires_q, expires_d, hit, found_q, is_due;
  logic [NumberW-1:0]     hit_number, oldest, unused_newer;
  logic                   any, unused_newest, is_boundary, from_there;
  logic                   is_sync, is_there, is_nowhere, is_short;

  // Who is there of each group, since when, and which it is; which numbers are free.
  logic [15:0]       present_mem[0:GROUPS-1];
  logic [31:0]       since_mem[0:GROUPS-1];
  logic [KeyW-1:0]   key_mem[0:GROUPS-1];
  logic [NumberW-1:0] left_mem[0:GROUPS-1];
  logic [NumberW:0]  left_q, fresh_q;
  logic [15:0]       present_q, present, asks, all, at_boundary;
  logic [KeyW-1:0]   key, key_q;
  logic [16*STREAMS-1:0] boundary_q;
  logic [StreamW-1:0] stream;
  logic              is_full, write, file, unfile, append, unlink, comes;
  // Who is released, and who of them has been told.
  logic [15:0]       tell_q, tell_d, next;
  logic [KeyW-1:0]   told_key_q, told_key_d;
  logic [3:0]        next_member;

  logic unused_header;
  assign unused_header = ^{header_q.notify, header_q.reserved, header_q.length, header_q.credit};

  assign key         = {header_q.address, header_q.tag};
  assign is_boundary = header_q.tag == cais_pkg::Boundary;
  assign from_there  = header_q.source == 12'(port_q) && 32'(port_q) < PORTS;
  assign is_sync     = header_q.kind == prim_flit_pkg::KindSync && header_q.inc
      && header_q.destination == node_i;
  assign is_there    = (present & asks) != '0;
  assign is_nowhere  = is_boundary && header_q.address >= 48'(STREAMS);
  assign is_short    = BREAKABLE != 0 && boundary_short_i
      && cais_pkg::ones(at_boundary) + 6'd1 >= 6'(PORTS);
  assign asks        = 16'd1 << port_q;
  assign all         = 16'((32'd1 << PORTS) - 32'd1);
  assign is_full     = left_q == '0 && fresh_q == (NumberW + 1)'(GROUPS);
  assign stream      = StreamW'(header_q.address);
  assign at_boundary = boundary_q[16*32'(stream)+:16];
  assign age         = time_q - since_mem[oldest];
  assign is_due      = any && age >= TIMEOUT;

  lookup_table #(
      .ENTRIES(GROUPS),
      .KEY_W(KeyW)
  ) u_lookup (
      .clk_i,
      .rst_ni,
      .key_i       (key),
      .hit_o       (hit),
      .hit_number_o(hit_number),
      .write_i     (file),
      .clear_i     (unfile),
      .number_i    (number_q)
  );

  // In the order in which they began to wait.
  access_order #(
      .ENTRIES(GROUPS)
  ) u_order (
      .clk_i,
      .rst_ni,
      .unlink_i(unlink),
      .append_i(append),
      .number_i(number_q),
      .any_o   (any),
      .oldest_o(oldest),
      .newest_o(unused_newest),
      .newer_o (unused_newer)
  );

  assign next_member = cais_pkg::first(tell_q);
  assign next = 16'd1 << next_member;
  assign valid_o = state_q == Tell && tell_q != '0;
  assign port_o  = next_member;
  assign flit_o  = prim_flit_pkg::swap(cais_pkg::header(prim_flit_pkg::KindRelease, 1'b1, node_i,
      12'(next_member), told_key_q[KeyW-1:24], '0, told_key_q[23:0]));

  assign forget_o = state_q == Forgets;
  assign present  = is_boundary ? at_boundary : found_q ? present_q : 16'd0;

  always_comb begin
    state_d        = state_q;
    number_d       = number_q;
    expires_d      = expires_q;
    header_ready_o = 1'b0;
    decided_o      = 1'b0;
    expired_o      = 1'b0;
    drop_o         = cais_pkg::Taken;
    write          = 1'b0;
    file           = 1'b0;
    unfile         = 1'b0;
    append         = 1'b0;
    unlink         = 1'b0;
    comes          = 1'b0;
    tell_d         = tell_q;
    told_key_d     = told_key_q;
    unique case (state_q)
      Idle: begin
        expires_d = is_due;
        if (is_due) begin
          number_d = oldest;
          state_d  = Fetch;
        end else if (header_valid_i) begin
          header_ready_o = 1'b1;
          state_d        = Search;
        end
      end

      Search: state_d = Found;

      Found: state_d = Fetch;

      Fetch: begin
        if (!expires_q) number_d = hit_number;
        state_d = expires_q ? Free : Decide;
      end

      Decide: begin
        tell_d     = present | asks;
        told_key_d = key;
        decided_o  = 1'b1;
        state_d    = Idle;
        if (!from_there) drop_o = cais_pkg::DropSource;
        else if (!is_sync) drop_o = cais_pkg::DropTransaction;
        else if (is_there || is_nowhere) drop_o = cais_pkg::DropSync;
        else begin
          comes = 1'b1;
          if (is_boundary) begin
            state_d = AtBoundary;
            // Said when all that is cached has been forgotten.
            decided_o = 1'b0;
          end else if ((present | asks) == all) state_d = Free;
          else if (found_q) write = 1'b1;
          else if (is_full) state_d = Tell;
          else begin
            state_d = Insert;
            number_d = (left_q != '0) ? left_mem[NumberW'(left_q - 1'b1)] : NumberW'(fresh_q);
          end
        end
      end

      AtBoundary: begin
        // All but one may be enough, where that rule is broken.
        if (at_boundary == all || is_short) begin
          state_d = Forgets;
        end else begin
          decided_o = 1'b1;
          state_d   = Idle;
        end
      end

      Forgets: begin
        if (forgotten_i) begin
          decided_o = 1'b1;
          state_d   = Tell;
        end
      end

      Insert: begin
        write   = 1'b1;
        file    = 1'b1;
        append  = 1'b1;
        state_d = Idle;
      end

      // A group is over: all are there, or it has waited for too long.
      Free: begin
        expired_o = expires_q;
        if (expires_q) begin
          tell_d     = present_q;
          told_key_d = key_q;
        end else if (BREAKABLE != 0 && forgets_last_i) begin
          tell_d = tell_q & ~asks;
        end
        unlink  = 1'b1;
        unfile  = 1'b1;
        state_d = Tell;
      end

      default: begin
        if (tell_q == '0) state_d = Idle;
        else if (ready_i) begin
          tell_d = tell_q & ~next;
          if (tell_d == '0) state_d = Idle;
        end
      end
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q    <= Idle;
      number_q   <= '0;
      expires_q  <= 1'b0;
      time_q     <= '0;
      left_q     <= '0;
      fresh_q    <= '0;
      boundary_q <= '0;
      tell_q     <= '0;
    end else begin
      state_q   <= state_d;
      number_q  <= number_d;
      expires_q <= expires_d;
      time_q    <= time_q + 32'd1;
      tell_q    <= tell_d;
      if (append) begin
        if (left_q != '0) left_q <= left_q - 1'b1;
        else fresh_q <= fresh_q + 1'b1;
      end else if (unfile) begin
        left_q <= left_q + 1'b1;
      end
      if (comes && is_boundary) boundary_q[16*32'(stream)+:16] <= at_boundary | asks;
      else if (state_q == Forgets && forgotten_i) boundary_q[16*32'(stream)+:16] <= '0;
    end
  end
  always_ff @(posedge clk_i) begin
    found_q    <= hit;
    told_key_q <= told_key_d;
    if (header_ready_o) begin
      header_q <= header_i;
      port_q   <= port_i;
    end
    if (state_q == Idle) at_q <= time_q;
    if (state_q == Fetch) begin
      present_q <= present_mem[number_d];
      key_q     <= key_mem[number_d];
    end
    // What was filed first has been filed alone.
    if (write) present_mem[number_q] <= file ? asks : present | asks;
    if (file) begin
      since_mem[number_q] <= at_q;
      key_mem[number_q]   <= key;
    end
    if (unfile) left_mem[NumberW'(left_q)] <= number_q;
  end

  assign at_o   = at_q;
  assign idle_o = state_q == Idle && !header_valid_i;
endmodule

`default_nettype wire
