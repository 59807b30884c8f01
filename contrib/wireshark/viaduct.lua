-- SPDX-License-Identifier: BSD-3-Clause
-- Wireshark: what Viaduct's hosts send each other. Fields are named as in docs/wire.md.
--   wireshark -X lua_script:viaduct.lua
-- Set-up is known by its port (7471, or 7472-8471 for users' agents) and its first four bytes,
-- packets of connections by trial: version and length of all their frames must be right. Sealed
-- packets show no frames, so they are not tried: "Decode As", VIADUCT, for their port.

local setup = Proto("viaduct_setup", "Viaduct set-up")
local packet = Proto("viaduct", "Viaduct packet")

local kinds = {
    [1] = "Hello", [2] = "Challenge", [3] = "Refusal", [4] = "Request",
    [5] = "Outcome", [6] = "Confirm", [7] = "Confirmed", [8] = "Cancel",
}
local refusals = {[1] = "another key", [2] = "another version"}
local types = {
    [0] = "padding", [1] = "acknowledgement", [2] = "ping", [3] = "pong", [4] = "close",
    [5] = "closed", [8] = "send", [9] = "RDMA write", [10] = "read request", [11] = "read data",
}

local s = {
    magic = ProtoField.string("viaduct_setup.magic", "Magic"),
    version = ProtoField.uint8("viaduct_setup.version", "Version"),
    kind = ProtoField.uint8("viaduct_setup.kind", "Kind", base.DEC, kinds),
    key_id = ProtoField.bytes("viaduct_setup.key_id", "Key id"),
    nonce = ProtoField.bytes("viaduct_setup.nonce", "Nonce"),
    slot = ProtoField.uint64("viaduct_setup.slot", "Cookie: slot"),
    cookie = ProtoField.bytes("viaduct_setup.cookie", "Cookie: hash"),
    refusal = ProtoField.uint8("viaduct_setup.refusal", "Refusal", base.DEC, refusals),
    request = ProtoField.uint64("viaduct_setup.request", "Request number"),
    seal_nonce = ProtoField.bytes("viaduct_setup.seal_nonce", "Nonce of the seal"),
    body = ProtoField.bytes("viaduct_setup.body", "Sealed body"),
}
setup.fields = s

local p = {
    token = ProtoField.uint32("viaduct.token", "Token", base.HEX),
    checksum = ProtoField.uint32("viaduct.checksum", "Checksum", base.HEX),
    number = ProtoField.uint32("viaduct.number", "Number"),
    version = ProtoField.uint8("viaduct.version", "Version"),
    link = ProtoField.uint8("viaduct.link", "Link"),
    flags = ProtoField.uint8("viaduct.flags", "Flags", base.HEX),
    sealed = ProtoField.bool("viaduct.flags.sealed", "Sealed", 8, nil, 1),
    continues = ProtoField.bool("viaduct.flags.continues", "Continues", 8, nil, 2),
    long_token = ProtoField.uint32("viaduct.long.token", "Token, turned", base.HEX),
    long_length = ProtoField.uint32("viaduct.long.length", "Length of the packet"),
    long_part = ProtoField.bytes("viaduct.long.part", "Piece of a long packet"),
    long_part_length = ProtoField.uint32("viaduct.long.part_length", "Length of the piece"),
    encrypted = ProtoField.bytes("viaduct.encrypted", "Encrypted frames"),
    tag = ProtoField.bytes("viaduct.tag", "Tag"),
    padding = ProtoField.bytes("viaduct.padding", "Padding"),
    type = ProtoField.uint8("viaduct.type", "Type", base.DEC, types),
    -- data
    data_flags = ProtoField.uint8("viaduct.data.flags", "Flags", base.HEX),
    whole = ProtoField.bool("viaduct.data.flags.whole", "Whole", 8, nil, 1),
    has_immediate = ProtoField.bool("viaduct.data.flags.immediate", "Immediate", 8, nil, 2),
    apart = ProtoField.bool("viaduct.data.flags.apart", "Apart", 8, nil, 4),
    length = ProtoField.uint16("viaduct.data.length", "Length"),
    message = ProtoField.uint32("viaduct.data.message", "Message"),
    receive = ProtoField.uint32("viaduct.data.receive", "Receive"),
    total = ProtoField.uint32("viaduct.data.total", "Total"),
    offset = ProtoField.uint32("viaduct.data.offset", "Offset"),
    immediate = ProtoField.uint32("viaduct.data.immediate", "Immediate", base.HEX),
    address = ProtoField.uint64("viaduct.data.address", "Address", base.HEX),
    handle = ProtoField.uint32("viaduct.data.handle", "Handle", base.HEX),
    payload = ProtoField.bytes("viaduct.data.payload", "Payload"),
    -- acknowledgement
    ack_link = ProtoField.uint8("viaduct.acknowledgement.link", "Link"),
    ack_ranges = ProtoField.uint8("viaduct.acknowledgement.ranges", "Ranges"),
    ack_state = ProtoField.uint8("viaduct.acknowledgement.state", "State"),
    ack_delay = ProtoField.uint32("viaduct.acknowledgement.delay", "Delay in us"),
    ack_delivered = ProtoField.uint32("viaduct.acknowledgement.delivered", "Delivered"),
    ack_largest = ProtoField.uint32("viaduct.acknowledgement.largest", "Largest"),
    ack_packets = ProtoField.uint32("viaduct.acknowledgement.range.packets", "Packets"),
    ack_missing = ProtoField.uint32("viaduct.acknowledgement.range.missing", "Missing below"),
    -- ping, pong, close, closed
    stamp = ProtoField.uint64("viaduct.stamp", "Stamp", base.HEX),
    reason = ProtoField.uint8("viaduct.close.reason", "Reason"),
    failed = ProtoField.uint32("viaduct.close.message", "Message"),
    status = ProtoField.uint32("viaduct.close.status", "Status", base.HEX),
}
packet.fields = p
local malformed = ProtoExpert.new("viaduct.malformed", "Malformed frame", expert.group.MALFORMED,
                                  expert.severity.ERROR)
packet.experts = {malformed}

-- ---- set-up ----------------------------------------------------------------------------------

function setup.dissector(buffer, info, tree)
    if buffer:len() < 32 or buffer(0, 4):string() ~= "VIAS" then return 0 end
    info.cols.protocol = "VIASETUP"
    local kind = buffer(5, 1):uint()
    info.cols.info = kinds[kind] or "unknown kind"
    local top = tree:add(setup, buffer(), "Viaduct set-up: " .. (kinds[kind] or "unknown kind"))
    top:add(s.magic, buffer(0, 4))
    top:add(s.version, buffer(4, 1))
    top:add(s.kind, buffer(5, 1))
    top:add(s.key_id, buffer(8, 8))
    top:add(s.nonce, buffer(16, 16))
    if kind == 2 and buffer:len() >= 56 then
        top:add(s.slot, buffer(32, 8))
        top:add(s.cookie, buffer(40, 16))
    elseif kind == 3 and buffer:len() >= 40 then
        top:add(s.refusal, buffer(32, 1))
    elseif kind >= 4 and buffer:len() >= 88 then
        top:add(s.slot, buffer(32, 8))
        top:add(s.cookie, buffer(40, 16))
        top:add(s.request, buffer(56, 8))
        top:add(s.seal_nonce, buffer(64, 24))
        if buffer:len() > 88 then top:add(s.body, buffer(88)) end
    end
    return buffer:len()
end

-- ---- packets ---------------------------------------------------------------------------------

local function is_data(kind) return kind >= 8 and kind <= 11 end

-- Bytes of a data frame before its payload.
local function data_header(kind, flags)
    local bytes = 12
    if flags % 2 == 0 then bytes = bytes + 8 end
    if flags % 4 >= 2 then bytes = bytes + 4 end
    if kind == 9 or kind == 10 then bytes = bytes + 12 end
    return bytes
end

-- Bytes of the frame at `at`; nil: there can be no such frame. `cut`: what comes last in the first
-- piece of a long packet goes on in the next ones.
local function frame_bytes(buffer, at, cut)
    local left = buffer:len() - at
    local kind = buffer(at, 1):uint()
    local bytes
    if kind == 1 then
        if left < 16 then return nil end
        local ranges = buffer(at + 2, 1):uint()
        if ranges > 16 then return nil end
        bytes = 16 + 8 * ranges
    elseif kind >= 2 and kind <= 5 then
        bytes = 12
    elseif is_data(kind) then
        if left < 12 then return nil end
        local flags = buffer(at + 1, 1):uint()
        if flags > 3 then return nil end
        local header = data_header(kind, flags)
        bytes = header + buffer(at + 2, 2):le_uint()
        if cut and header <= left then bytes = math.min(bytes, left) end
    else
        return nil
    end
    if bytes > left then return nil end
    return bytes
end

local function add_data(buffer, at, kind, tree)
    local flags = buffer(at + 1, 1):uint()
    local length = buffer(at + 2, 2):le_uint()
    local message = buffer(at + 4, 4):le_uint()
    local flag_tree = tree:add(p.data_flags, buffer(at + 1, 1))
    flag_tree:add(p.whole, buffer(at + 1, 1))
    flag_tree:add(p.has_immediate, buffer(at + 1, 1))
    flag_tree:add(p.apart, buffer(at + 1, 1))
    tree:add_le(p.length, buffer(at + 2, 2))
    tree:add_le(p.message, buffer(at + 4, 4))
    tree:add_le(p.receive, buffer(at + 8, 4))
    local next_at = at + 12
    if flags % 2 == 0 then
        tree:add_le(p.total, buffer(next_at, 4))
        tree:add_le(p.offset, buffer(next_at + 4, 4))
        next_at = next_at + 8
    end
    if flags % 4 >= 2 then
        tree:add_le(p.immediate, buffer(next_at, 4))
        next_at = next_at + 4
    end
    if kind == 9 or kind == 10 then
        tree:add_le(p.address, buffer(next_at, 8))
        tree:add_le(p.handle, buffer(next_at + 8, 4))
        next_at = next_at + 12
    end
    local here = math.min(length, buffer:len() - next_at)
    if here > 0 and flags < 4 then tree:add(p.payload, buffer(next_at, here)) end
    return string.format("%s %d (%d B)", types[kind], message, length)
end

local function add_acknowledgement(buffer, at, tree)
    local ranges = buffer(at + 2, 1):uint()
    tree:add(p.ack_link, buffer(at + 1, 1))
    tree:add(p.ack_ranges, buffer(at + 2, 1))
    tree:add(p.ack_state, buffer(at + 3, 1))
    tree:add_le(p.ack_delay, buffer(at + 4, 4))
    tree:add_le(p.ack_delivered, buffer(at + 8, 4))
    tree:add_le(p.ack_largest, buffer(at + 12, 4))
    for i = 0, ranges - 1 do
        tree:add_le(p.ack_packets, buffer(at + 16 + 8 * i, 4))
        tree:add_le(p.ack_missing, buffer(at + 20 + 8 * i, 4))
    end
    return string.format("ack link %d delivered %d", buffer(at + 1, 1):uint(),
                         buffer(at + 8, 4):le_uint())
end

local function add_frame(buffer, at, bytes, tree)
    local kind = buffer(at, 1):uint()
    local branch = tree:add(packet, buffer(at, bytes), "Frame: " .. types[kind])
    branch:add(p.type, buffer(at, 1))
    if kind == 1 then return add_acknowledgement(buffer, at, branch) end
    if is_data(kind) then return add_data(buffer, at, kind, branch) end
    if kind == 2 or kind == 3 then
        branch:add_le(p.stamp, buffer(at + 4, 8))
    else
        branch:add(p.reason, buffer(at + 1, 1))
        branch:add_le(p.failed, buffer(at + 4, 4))
        branch:add_le(p.status, buffer(at + 8, 4))
    end
    return types[kind]
end

local function is_apart(buffer, at)
    return is_data(buffer(at, 1):uint()) and buffer:len() - at >= 12 and
        buffer(at + 1, 1):uint() >= 4
end

-- Frames whose payloads lie behind all of them, up to the end of the packet, which has `total` bytes
-- and perhaps fewer here. What is to be said of them; nil: they do not add up.
local function add_apart(buffer, at, total, top)
    local said = {}
    local lengths = {}
    local payloads = 0
    repeat
        if at + 12 > buffer:len() or not is_apart(buffer, at) then return nil end
        local kind = buffer(at, 1):uint()
        local flags = buffer(at + 1, 1):uint()
        local header = data_header(kind, flags)
        if flags > 7 or kind == 10 or at + header > buffer:len() then return nil end
        said[#said + 1] = add_frame(buffer, at, header, top)
        lengths[#lengths + 1] = buffer(at + 2, 2):le_uint()
        payloads = payloads + lengths[#lengths]
        at = at + header
    until at + payloads >= total
    if at + payloads > total then return nil end
    for _, length in ipairs(lengths) do
        local here = math.min(length, buffer:len() - at)
        if here <= 0 then break end
        top:add(p.payload, buffer(at, here))
        at = at + here
    end
    return table.concat(said, " ")
end

-- The middle of a long operation: no frames, and the message's number lies in three places.
local function add_continuation(buffer, tree)
    local message = buffer(15, 1):uint() * 65536 + buffer(16, 2):le_uint()
    local length = buffer:len() - 22
    local branch = tree:add(packet, buffer(16), "Continuation")
    branch:add(p.message, buffer(16, 2), message)
    branch:add(p.length, buffer(22), length)
    branch:add_le(p.offset, buffer(18, 4))
    branch:add(p.payload, buffer(22))
    return string.format("continues %d (%d B)", message, length)
end

-- What each direction's packets begin with; long ones begin with its complement, and their further
-- pieces with anything.
local tokens = {}

local function add_piece(buffer, info, tree)
    info.cols.protocol = "VIADUCT"
    local top = tree:add(packet, buffer())
    top:add(p.long_part_length, buffer(), buffer:len())
    top:add(p.long_part, buffer())
    info.cols.info = string.format("piece of a long packet (%d B)", buffer:len())
    return buffer:len()
end

function packet.dissector(buffer, info, tree)
    local direction = tostring(info.src) .. " " .. info.src_port .. " " .. tostring(info.dst) ..
        " " .. info.dst_port
    local token = tokens[direction]
    local word = buffer:len() >= 4 and buffer(0, 4):le_uint() or nil
    local cut = false
    local total = buffer:len()
    if token ~= nil and word == 4294967295 - token and buffer:len() > 24 then
        info.cols.protocol = "VIADUCT"
        local long = tree:add(packet, buffer(0, 8), "Long packet")
        long:add_le(p.long_token, buffer(0, 4))
        long:add_le(p.long_length, buffer(4, 4))
        cut = buffer:len() - 8 < buffer(4, 4):le_uint()
        total = buffer(4, 4):le_uint()
        buffer = buffer(8):tvb()
    elseif token ~= nil and word ~= token then
        return add_piece(buffer, info, tree)
    end
    if buffer:len() < 16 then return 0 end
    if token == nil and buffer(12, 1):uint() == 4 then tokens[direction] = word end
    info.cols.protocol = "VIADUCT"
    local top = tree:add(packet, buffer())
    top:add_le(p.token, buffer(0, 4))
    top:add_le(p.checksum, buffer(4, 4))
    top:add_le(p.number, buffer(8, 4))
    top:add(p.version, buffer(12, 1))
    top:add(p.link, buffer(13, 1))
    local flags = top:add(p.flags, buffer(14, 1))
    flags:add(p.sealed, buffer(14, 1))
    flags:add(p.continues, buffer(14, 1))
    local said = {string.format("link %d packet %d:", buffer(13, 1):uint(),
                                buffer(8, 4):le_uint())}
    local at = 16
    if buffer(14, 1):uint() % 2 == 1 then
        if buffer:len() >= 32 then
            if buffer:len() > 32 then
                top:add(p.encrypted, buffer(16, buffer:len() - 32))
            end
            top:add(p.tag, buffer(buffer:len() - 16, 16))
        end
        said[#said + 1] = "sealed"
        at = buffer:len()
    elseif buffer(14, 1):uint() == 2 then
        if buffer:len() > 22 then
            said[#said + 1] = add_continuation(buffer, top)
        else
            top:add_proto_expert_info(malformed)
            said[#said + 1] = "malformed"
        end
        at = buffer:len()
    end
    while at < buffer:len() do
        if buffer(at, 1):uint() == 0 then
            top:add(p.padding, buffer(at))
            break
        end
        if is_apart(buffer, at) then
            local frames = add_apart(buffer, at, total, top)
            if frames == nil then top:add_proto_expert_info(malformed) end
            said[#said + 1] = frames or "malformed"
            break
        end
        local bytes = frame_bytes(buffer, at, cut)
        if bytes == nil then
            top:add_proto_expert_info(malformed)
            said[#said + 1] = "malformed"
            break
        end
        said[#said + 1] = add_frame(buffer, at, bytes, top)
        at = at + bytes
    end
    info.cols.info = table.concat(said, " ")
    return buffer:len()
end

-- A packet by trial: nothing may be wrong, and there must be a frame. Continuations show too little
-- of themselves; they come after others.
local function is_packet(buffer)
    if buffer:len() < 17 or buffer(12, 1):uint() ~= 4 or buffer(15, 1):uint() ~= 0 or
        buffer(14, 1):uint() ~= 0 then
        return false
    end
    local at = 16
    while at < buffer:len() and buffer(at, 1):uint() ~= 0 do
        local bytes = frame_bytes(buffer, at)
        if bytes == nil then return false end
        at = at + bytes
    end
    return at > 16
end

packet:register_heuristic("udp", function(buffer, info, tree)
    if not is_packet(buffer) then return false end
    packet.dissector(buffer, info, tree)
    -- The others of this conversation need no trial.
    info.conversation = packet
    return true
end)
setup:register_heuristic("udp", function(buffer, info, tree)
    if buffer:len() < 32 or buffer(0, 4):string() ~= "VIAS" then return false end
    setup.dissector(buffer, info, tree)
    return true
end)
local ports = DissectorTable.get("udp.port")
ports:add("7471-8471", setup)
ports:add_for_decode_as(packet)
