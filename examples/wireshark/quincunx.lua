-- Shows in Wireshark and tshark what docs/wire.md says of a frame: group, collective, primitive, part, and what is wrong with it.
--
--   tshark -X lua_script:examples/wireshark/quincunx.lua -r run.pcapng -Y quincunx.wrong -T fields -e frame.number -e quincunx.info
--
-- Which group a frame is of, and which part of its collective, follows from the control messages that the capture has seen before it. Groups
-- are numbered in the order in which they are seen; only locks carry a group's own number. Two parts of a tree are seen to be one group when
-- they meet: with -2 tshark reads all before it prints.

local bit = bit32 or bit
local unpack = table.unpack or unpack
local band, bor, bxor, lshift, rshift = bit.band, bit.bor, bit.bxor, bit.lshift, bit.rshift

local proto = Proto("quincunx", "Quincunx")
local f = {
    group = ProtoField.string("quincunx.group", "Group"),
    collective = ProtoField.string("quincunx.collective", "Collective"),
    primitive = ProtoField.string("quincunx.primitive", "Primitive"),
    part = ProtoField.string("quincunx.part", "Part"),
    wrong = ProtoField.string("quincunx.wrong", "Wrong"),
    info = ProtoField.string("quincunx.info", "Summary"),
}
proto.fields = { f.group, f.collective, f.primitive, f.part, f.wrong, f.info }
local interface_id = Field.new("frame.interface_id")

local ROCE_PORT, ROCE_V1, IPV4, IPV6 = 4791, 0x8915, 0x0800, 0x86dd
local OPCODES = {
    [0x00] = "SEND First", [0x01] = "SEND Middle", [0x02] = "SEND Last", [0x03] = "SEND Last with Immediate", [0x04] = "SEND Only",
    [0x05] = "SEND Only with Immediate", [0x06] = "WRITE First", [0x07] = "WRITE Middle", [0x08] = "WRITE Last",
    [0x09] = "WRITE Last with Immediate", [0x0a] = "WRITE Only", [0x0b] = "WRITE Only with Immediate", [0x0c] = "READ Request",
    [0x0d] = "READ Response First", [0x0e] = "READ Response Middle", [0x0f] = "READ Response Last", [0x10] = "READ Response Only",
    [0x11] = "Acknowledge", [0x12] = "ATOMIC Acknowledge", [0x13] = "Compare and swap", [0x14] = "Fetch and add",
    [0x64] = "UD SEND Only", [0x65] = "UD SEND Only with Immediate", [0x81] = "congestion notification", [0xc0] = "path probe",
}
-- Bytes between BTH and payload.
local EXTENSIONS = {
    [0x03] = 4, [0x05] = 4, [0x06] = 16, [0x09] = 4, [0x0a] = 16, [0x0b] = 20, [0x0c] = 16, [0x0d] = 4, [0x0f] = 4, [0x10] = 4, [0x11] = 4,
    [0x12] = 12, [0x13] = 28, [0x14] = 28, [0x64] = 8, [0x65] = 12, [0x81] = 16,
}
local TYPES = { [0] = "f32", "f16", "bf16", "i32", "f64", "i64", "u64", "u32", "i16", "i8", "u8", "e4m3", "e5m2", "mxfp8", "nvfp4" }
local OPERATIONS = { [0] = "sum", "min", "max", "prod", "band", "bor", "bxor" }
local FLOATS = { f32 = true, f16 = true, bf16 = true, f64 = true, e4m3 = true, e5m2 = true }
local BLOCKS = { mxfp8 = true, nvfp4 = true }
local REFUSALS = { [0] = "a packet is missing", "the request makes no sense", "that memory may not be written", "the receiver has failed" }
local LOCK_WORDS = { [0] = "ask for the locks", "ask in vain", "refused", "granted", "done", "free" }
local TRANSACTIONS = {
    [0] = "CREDIT", "READ", "READ RESPONSE", "WRITE", "WRITE RESPONSE", "ADD", "STORE", "MULTIMEM LD_REDUCE", "MULTIMEM ST", "MULTIMEM RED",
    "MULTIWRITE", "RED", "MULTIMEM RED", "SYNC", "RELEASE",
}
-- Of transactions: an operand of eight bytes, and a payload.
local OPERAND = { [5] = true, [6] = true, [9] = true, [10] = true }
local PAYLOAD = { [2] = true, [3] = true, [8] = true, [10] = true, [11] = true, [12] = true }

-- What the capture has said so far.
local groups, connections, members, writers, seen, results

function proto.init()
    groups, connections, members, writers, seen, results = {}, {}, {}, {}, {}, {}
end

local crc_table = {}
for byte = 0, 255 do
    local crc = byte
    for _ = 1, 8 do
        crc = band(crc, 1) == 1 and bxor(rshift(crc, 1), 0xedb88320) or rshift(crc, 1)
    end
    crc_table[byte] = crc
end

local function crc32(bytes)
    local crc = 0xffffffff
    for at = 1, #bytes do
        crc = bxor(rshift(crc, 8), crc_table[band(bxor(crc, bytes:byte(at)), 0xff)])
    end
    return band(bxor(crc, 0xffffffff), 0xffffffff)
end

-- `text` with ones in place of the bytes at these places, counted from zero.
local function masked(text, places)
    local out, from = {}, 1
    for _, at in ipairs(places) do
        out[#out + 1] = text:sub(from, at) .. "\255"
        from = at + 2
    end
    return table.concat(out) .. text:sub(from)
end

-- Whether a frame's invariant CRC is right; `network` is where the IP or route header begins, `bth` where the BTH, `ends` where the CRC ends.
local function has_right_crc(frame, kind, network, bth, ends)
    local text = frame:raw(network, ends - 4 - network)
    local at = bth - network
    local places
    if kind == IPV4 then
        places = { 1, 8, 10, 11, at - 2, at - 1, at + 4 }
    elseif kind == IPV6 then
        places = { 1, 2, 3, 7, at - 2, at - 1, at + 4 }
    else
        places = { 1, 2, 3, 7, at + 4 }
    end
    text = masked(text, places)
    if kind ~= IPV4 then
        -- The version stays, and the traffic class begins in its byte.
        text = string.char(bor(frame(network, 1):uint(), 0x0f)) .. text:sub(2)
    end
    return crc32(("\255"):rep(8) .. text) == frame(ends - 4, 4):le_uint()
end

-- What a control message says, or nothing if it makes no sense.
local function control_message(immediate)
    local pattern = rshift(immediate, 30)
    if pattern == 3 then
        return { what = ("confirmation %08x"):format(band(immediate, 0x3fffffff)), packets = 0 }
    end
    local operation, kind = OPERATIONS[band(rshift(immediate, 27), 7)], TYPES[band(rshift(immediate, 23), 15)]
    local root, packets = band(rshift(immediate, 13), 0x3ff), band(immediate, 0x1fff)
    local gathers = pattern == 0 and band(root, 0x200) ~= 0
    if not operation or not kind then
        return nil
    elseif gathers and (operation ~= "bor" or band(root, 0x100) ~= 0) or not gathers and FLOATS[kind] and operation:match("^b") then
        return nil
    elseif not gathers and BLOCKS[kind] and operation ~= "sum" then
        return nil
    end
    local what
    if gathers then
        what = ("AllGather %s"):format(kind)
    elseif pattern == 0 then
        local name = band(root, 0x100) ~= 0 and "ReduceScatter" or "AllReduce"
        what = band(root, 0x80) ~= 0 and "Barrier" or ("%s %s %s"):format(name, operation, kind)
        if band(root, 0x40) ~= 0 then
            what = what .. ", further parts follow"
        end
    elseif pattern == 1 then
        what = ("Reduce to rank %d %s %s"):format(root, operation, kind)
    else
        what = ("Broadcast of rank %d %s"):format(root, kind)
    end
    return { what = what, packets = packets }
end

-- The group of nodes among which no control message says it: those that are joined by frames.
local function group_of_hosts(source, destination)
    local group = members[source] or members[destination]
    if not group then
        group = { number = #groups + 1 }
        groups[group.number] = group
    end
    members[source], members[destination] = members[source] or group, members[destination] or group
    return group
end

-- What a group has become: one that turns out to be a part of another is that one.
local function resolve(group)
    while group and group.into do
        group = group.into
    end
    return group
end

-- Makes two groups one, unless both have a connection between the same two nodes; the one that remains.
local function join(group, other)
    for pair in pairs(other.pairs) do
        if group.pairs[pair] then
            return group
        end
    end
    for _, name in ipairs({ "pairs", "addresses", "announced" }) do
        for key, value in pairs(other[name]) do
            group[name][key] = value
        end
    end
    group.terminates = group.terminates or other.terminates
    other.into = group
    return group
end

-- The group of a connection whose first control message this is: those that have had the same, and no other connection between these two.
local function group_of_control(frame, immediate)
    local pair = frame.source .. ">" .. frame.destination
    local found
    for _, group in ipairs(groups) do
        local near = group.pairs and not group.into and (group.addresses[frame.source] or group.addresses[frame.destination])
        if near and group.announced[frame.psn] == immediate and not group.pairs[pair] then
            found = found and join(found, group) or group
        end
    end
    if not found then
        found = { number = #groups + 1, announced = {}, pairs = {}, addresses = {} }
        groups[found.number] = found
    end
    found.pairs[pair] = frame.queue_pair
    found.addresses[frame.source], found.addresses[frame.destination] = true, true
    return found
end

-- What is known of a direction of a connection.
local function connection_of(frame)
    local key = ("%s>%s/%06x"):format(frame.source, frame.destination, frame.queue_pair)
    if not connections[key] then
        connections[key] = { at = {}, key = key }
    end
    return connections[key]
end

-- The group in which the peer of an acknowledge sends.
local function group_of_answer(frame)
    local there = frame.destination .. ">" .. frame.source
    local back = frame.source .. ">" .. frame.destination
    for _, group in ipairs(groups) do
        if group.pairs and not group.into and group.pairs[there] and (group.pairs[back] or frame.queue_pair) == frame.queue_pair then
            return group
        end
    end
    return nil
end

local function ranks_of(immediate)
    local ranks = {}
    for rank = 0, 31 do
        if band(rshift(immediate, rank), 1) == 1 then
            ranks[#ranks + 1] = rank
        end
    end
    return table.concat(ranks, ", ")
end

-- EPIC writes nowhere: nodes that do speak another language, MultiWrite's say. What they had sent before looked like a control message.
local function is_among_writers(frame)
    return writers[frame.source] and writers[frame.destination]
end

-- A message of EPIC's, or one between hosts: what it is a part of.
local function send(frame, found)
    local connection = connection_of(frame)
    found.between = frame
    if not connection.is_hosts and is_among_writers(frame) then
        connection.is_hosts, connection.group = true, group_of_hosts(frame.source, frame.destination)
    end
    local message = frame.opcode == 5 and not connection.is_hosts and control_message(frame.immediate)
    if not connection.group then
        connection.is_hosts = not message
        connection.group = message and group_of_control(frame, frame.immediate) or group_of_hosts(frame.source, frame.destination)
    end
    found.group = connection.group
    if connection.is_hosts then
        found.collective = "among hosts"
        return
    end
    if frame.opcode == 5 and not message then
        found.wrong[#found.wrong + 1] = ("control message %08x makes no sense"):format(frame.immediate)
        return
    end
    if message then
        local group = resolve(connection.group)
        local announced = group.announced[frame.psn]
        -- Where connections end at the switch, each has numbers of its own.
        if announced and announced ~= frame.immediate and not group.terminates then
            found.wrong[#found.wrong + 1] = ("disagreement: others have sent control message %08x"):format(announced)
        end
        group.announced[frame.psn] = frame.immediate
        for number = 0, message.packets do
            connection.at[(frame.psn + number) % 0x1000000] = { first = frame.psn, message = message }
        end
    end
    local invocation = connection.at[frame.psn]
    if not invocation then
        found.wrong[#found.wrong + 1] = "no control message announces it"
        return
    end
    found.collective = invocation.message.what
    local number = (frame.psn - invocation.first) % 0x1000000
    local all = invocation.message.packets
    found.part = number == 0 and ("control, %d packets follow"):format(all) or ("packet %d of %d"):format(number, all)
    if number == 0 and not message then
        found.wrong[#found.wrong + 1] = "expected a control message of this number"
    elseif number > 0 and message then
        found.wrong[#found.wrong + 1] = "a control message inside another invocation"
    end
end

local function answer(frame, found)
    local kind, value = rshift(frame.syndrome, 5), band(frame.syndrome, 31)
    local group = group_of_answer(frame)
    found.group = group or members[frame.source]
    if kind == 0 then
        found.part = ("all up to %d"):format(frame.psn)
        if group and value ~= 31 then
            group.terminates = true
        end
    elseif kind == 1 then
        found.part = ("packet %d"):format(frame.psn)
        found.wrong[#found.wrong + 1] = "receiver not ready"
    elseif kind == 3 and REFUSALS[value] then
        found.part = ("packet %d"):format(frame.psn)
        found.wrong[#found.wrong + 1] = "NAK: " .. REFUSALS[value]
    else
        found.wrong[#found.wrong + 1] = "a syndrome without a meaning"
    end
end

-- A write: NetReduce's say in their first packet what they are, MultiWrite's in an immediate whom they are for.
local function write(frame, tvb, found)
    local connection = connection_of(frame)
    local group = group_of_hosts(frame.source, frame.destination)
    writers[frame.source], writers[frame.destination] = true, true
    found.group = group
    local at = frame.payload
    if frame.length >= 20 and (frame.opcode == 6 or frame.opcode == 0x0b or frame.opcode == 0x0a) and tvb(at, 4):uint() == 0x514e5231 then
        local message = { first = frame.psn, number = tvb(at + 4, 4):uint(), frames = tvb(at + 10, 2):uint(), collective = tvb(at + 16, 4):uint() }
        for number = 0, message.frames - 1 do
            connection.at[(frame.psn + number) % 0x1000000] = message
        end
    end
    local message = connection.at[frame.psn]
    if message then
        found.collective = ("AllReduce %d"):format(message.collective)
        local number = (frame.psn - message.first) % 0x1000000
        found.part = ("message %d, frame %d of %d"):format(message.number, number + 1, message.frames)
    elseif frame.is_v1 then
        found.wrong[#found.wrong + 1] = "no first frame announces it"
    else
        found.collective = "writes"
        if frame.immediate then
            found.collective = "MultiWrite"
            found.part = frame.immediate > 1 and "for ranks " .. ranks_of(frame.immediate) or nil
        end
    end
end

-- Reads a RoCE frame whose headers end at `bth`, and the invariant CRC at `ends`.
local function roce(tvb, kind, network, bth, ends, source, destination)
    local found = { wrong = {} }
    if ends > tvb:len() or ends < bth + 16 then
        found.primitive = "RoCE"
        found.wrong[1] = "cut off"
        return found
    end
    local opcode, flags = tvb(bth, 1):uint(), tvb(bth + 1, 1):uint()
    found.primitive = OPCODES[opcode] or ("opcode %02x"):format(opcode)
    if opcode == 0xc0 then
        return found
    end
    if not OPCODES[opcode] then
        found.wrong[1] = "an unknown opcode"
        return found
    end
    if not has_right_crc(tvb, kind, network, bth, ends) then
        found.wrong[1] = "the invariant CRC is wrong"
        return found
    end
    local payload = bth + 12 + (EXTENSIONS[opcode] or 0)
    local frame = {
        opcode = opcode, source = source, destination = destination, queue_pair = tvb(bth + 5, 3):uint(), psn = tvb(bth + 9, 3):uint(),
        payload = payload, length = ends - 4 - payload - band(rshift(flags, 4), 3), is_v1 = kind == ROCE_V1,
    }
    if frame.length < 0 then
        found.wrong[1] = "shorter than its headers"
        return found
    end
    if band(flags, 0x0f) ~= 0 then
        found.wrong[#found.wrong + 1] = "a version of the transport header other than 0"
    end
    if opcode == 3 or opcode == 5 or opcode == 9 or opcode == 0x0b or opcode == 0x65 then
        frame.immediate = tvb(payload - 4, 4):uint()
    end
    if opcode == 1 and frame.length == 0 then
        found.primitive = "question"
        found.part = ("what has arrived up to %d"):format(frame.psn)
        found.group = connection_of(frame).group
    elseif opcode <= 5 then
        send(frame, found)
    elseif opcode <= 0x0b then
        write(frame, tvb, found)
    elseif opcode == 0x11 then
        frame.syndrome = tvb(bth + 12, 1):uint()
        answer(frame, found)
    elseif opcode == 0x65 then
        local word = LOCK_WORDS[rshift(frame.immediate, 29)]
        found.group = { number = tvb(bth + 12, 4):uint() }
        found.collective = "locks"
        found.part = word and ("%s, invocation %d"):format(word, band(frame.immediate, 0x1fffffff))
        if not word then
            found.wrong[#found.wrong + 1] = "no word about locks"
        end
    end
    if opcode <= 0x0b and found.primitive ~= "question" then
        found.sent = ("%s %d"):format(connection_of(frame).key, frame.psn)
    end
    return found
end

-- Reads an Ethernet frame; nothing if it is no RoCE.
local function ethernet(tvb)
    if tvb:len() < 14 + 20 + 8 then
        return nil
    end
    local kind = tvb(12, 2):uint()
    if kind == IPV4 and tvb(14, 1):uint() == 0x45 and tvb(23, 1):uint() == 17 and tvb(36, 2):uint() == ROCE_PORT then
        return roce(tvb, kind, 14, 42, 34 + tvb(38, 2):uint(), tostring(tvb(26, 4):ipv4()), tostring(tvb(30, 4):ipv4()))
    elseif tvb:len() < 14 + 40 + 12 then
        return nil
    elseif kind == IPV6 and tvb(20, 1):uint() == 17 and tvb(56, 2):uint() == ROCE_PORT then
        return roce(tvb, kind, 14, 62, 54 + tvb(58, 2):uint(), tostring(tvb(22, 16):ipv6()), tostring(tvb(38, 16):ipv6()))
    elseif kind == ROCE_V1 and tvb(20, 1):uint() == 0x1b then
        return roce(tvb, kind, 14, 54, 54 + tvb(18, 2):uint(), tostring(tvb(22, 16):ipv6()), tostring(tvb(38, 16):ipv6()))
    end
    return nil
end

-- Reads a packet of the memory fabric.
local function flit(tvb)
    local found = { wrong = {}, collective = "memory fabric" }
    if tvb:len() < 16 then
        found.wrong[1] = "cut off"
        return found
    end
    local first, length, credit = tvb(0, 1):uint(), tvb(10, 2):uint(), tvb(15, 1):uint()
    local kind = rshift(first, 4)
    found.primitive = TRANSACTIONS[kind] or ("kind %d"):format(kind)
    local nodes = tvb(1, 3):uint()
    found.part = ("node %d to %d, address %s, %d bytes, tag %d"):format(
        rshift(nodes, 12), band(nodes, 0xfff), tostring(tvb(4, 6):bytes()):lower(), length, tvb(12, 3):uint())
    if band(first, 8) ~= 0 then
        found.part = found.part .. ", in-switch accelerator"
    end
    if band(first, 4) ~= 0 then
        found.part = found.part .. ", asks to hear when all others have come here"
    end
    if band(credit, 15) > 0 then
        found.part = found.part .. (", %d credits of channel %d"):format(band(credit, 15), rshift(credit, 4))
    end
    if not TRANSACTIONS[kind] then
        found.wrong[#found.wrong + 1] = "a kind without a transaction"
    else
        local body = (OPERAND[kind] and 8 or 0) + (PAYLOAD[kind] and length or 0)
        if tvb:len() ~= 16 + body then
            found.wrong[#found.wrong + 1] = ("%d bytes behind the header where it announces %d"):format(tvb:len() - 16, body)
        end
    end
    if rshift(credit, 4) > 7 then
        found.wrong[#found.wrong + 1] = "credits of a channel that no link has"
    end
    return found
end

-- Whether a packet was on the same link before. Which link that is Wireshark says when it shows a frame, not when it first reads it. Numbers come
-- round after 2^24 packets, which no capture of ours has.
local function is_sent_again(found, number)
    local interface = interface_id()
    if not found.sent or not interface then
        return false
    end
    local key = tostring(interface) .. " " .. found.sent
    seen[key] = math.min(seen[key] or number, number)
    return seen[key] < number
end

local function show(found, tvb, pinfo, tree)
    if found.between and is_among_writers(found.between) then
        found.collective, found.part, found.wrong, found.between = "among hosts", nil, {}, nil
    end
    local parts = {}
    local group = resolve(found.group)
    if group then
        parts[1] = "group " .. group.number
    end
    parts[#parts + 1] = found.collective
    parts[#parts + 1] = found.part
    parts[#parts + 1] = found.primitive
    local info = table.concat(parts, ", ")
    local branch = tree:add(proto, tvb(), "Quincunx: " .. info)
    if group then
        branch:add(f.group, tostring(group.number)):set_generated()
    end
    for _, name in ipairs({ "collective", "primitive", "part" }) do
        if found[name] then
            branch:add(f[name], found[name]):set_generated()
        end
    end
    local all = { unpack(found.wrong) }
    if is_sent_again(found, pinfo.number) then
        all[#all + 1] = "sent again"
    end
    for _, wrong in ipairs(all) do
        branch:add(f.wrong, wrong):set_generated()
        branch:add_expert_info(PI_PROTOCOL, PI_WARN, wrong)
        info = info .. " [" .. wrong .. "]"
    end
    branch:add(f.info, info):set_generated()
end

-- Frames are read in order the first time; what was found is shown whenever one is looked at again.
local function dissect(read, tvb, pinfo, tree)
    if results[pinfo.number] == nil then
        local found = read(tvb)
        results[pinfo.number] = found and { by = read, found = found } or false
    end
    local result = results[pinfo.number]
    if result and result.by == read then
        show(result.found, tvb, pinfo, tree)
    end
end

function proto.dissector(tvb, pinfo, tree)
    dissect(ethernet, tvb, pinfo, tree)
end
register_postdissector(proto)

local memory = Proto("quincunx_memory", "Quincunx memory fabric")
function memory.dissector(tvb, pinfo, tree)
    pinfo.cols.protocol = "flits"
    dissect(flit, tvb, pinfo, tree)
    return tvb:len()
end
DissectorTable.get("wtap_encap"):add(wtap.USER0, memory)
