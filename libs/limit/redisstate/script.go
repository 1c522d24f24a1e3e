package redisstate

import "github.com/redis/go-redis/v9"

// syncScript processes one demand of one executor for one app atomically: of two concurrent calls,
// each sees what the other took. The key is a hash:
//
//	used       time until which all tokens are spent, at the rate; never in the future
//	e:<name>   an executor: "<slots, including running calls> <wanted> <expiry>"
//	w:<name>   its waiting fires, 0 or 1 per priority: "<high> <normal> <low> <expiry>"
//	c          credits of the picker: "<high> <normal> <low>"
//
// All times are in µs of Redis's clock, so the clocks of executors do not matter. A clock that is set
// back, as by a failover to a server that is behind, costs at most one full bucket. What an executor
// wrote before ends no later than if it was written now.
//
//	ARGV: 1 executor, 2 rate, 3 burst, 4 tokens wanted in advance, 5 limit of concurrent
//	calls, 6 calls in use, 7 slots wanted, 8 slot TTL in µs, 9 slot rotation in µs,
//	10 to 12 waiting fires (high, normal, low), 13 to 15 weights of the priorities,
//	16 TTL of waiting fires in µs, 17 how many waiting fires can start now
//	returns tokens, µs until the next token, slots, executors, and then the order of
//	the tokens for waiting fires: 0 high, 1 normal, 2 low
//
// The division of slots is limit.Share in Lua, and the order is limit.Picker.
//
//nolint:dupword // an end follows an end
var syncScript = redis.NewScript(`
local key, me = KEYS[1], 'e:' .. ARGV[1]
local rate, burst, wanted = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local most, inuse, want, ttl = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

local function numbers(text) -- the numbers of a field, which may be missing
	local all = {}
	for n in string.gmatch(text or '', '%S+') do all[#all + 1] = tonumber(n) end
	return all
end

local left, elsewhere, weights, starts = {}, {false, false, false}, {}, tonumber(ARGV[17])
for i = 1, 3 do
	left[i], weights[i] = tonumber(ARGV[9 + i]), tonumber(ARGV[12 + i])
end
local waits = left[1] + left[2] + left[3] > 0
local all = redis.call('HGETALL', key)
for i = 1, #all, 2 do
	local f = all[i]
	if string.sub(f, 1, 2) == 'w:' and f ~= 'w:' .. ARGV[1] then
		local w = numbers(all[i + 1])
		if not w[4] or w[4] < now then
			redis.call('HDEL', key, f)
		else
			local last = now + tonumber(ARGV[16])
			if w[4] > last then redis.call('HSET', key, f, string.format('%d %d %d %d', w[1], w[2], w[3], last)) end
			for c = 1, 3 do elsewhere[c] = elsewhere[c] or w[c] > 0 end
		end
	end
end

-- pick returns the next priority, and the credits after it.
local function pick(credit)
	local waiting, active, some = {}, {}, false
	for c = 1, 3 do
		credit[c] = credit[c] or 0
		waiting[c] = left[c] > 0 or elsewhere[c]
		active[c] = waiting[c] or credit[c] < 0
		some = some or waiting[c]
	end
	if not some then return nil, credit end
	local rest, again = 1, true
	while again do
		again = false
		local sum = 0
		for c = 1, 3 do
			if active[c] then sum = sum + weights[c] end
		end
		local share = rest / sum
		for c = 1, 3 do
			if active[c] and not waiting[c] and -credit[c] <= share * weights[c] then
				rest = rest + credit[c]
				credit[c], active[c], again = 0, false, true
			end
		end
		if not again then
			for c = 1, 3 do
				if active[c] then credit[c] = credit[c] + share * weights[c] end
			end
		end
	end
	local best, soonest = nil, 0
	for c = 1, 3 do
		if waiting[c] and credit[c] > 1e-9 then
			local last = (1 - credit[c]) / weights[c]
			if not best or last < soonest - 1e-9 then best, soonest = c, last end
		end
	end
	if not best then return pick({0, 0, 0}) end
	credit[best] = credit[best] - 1
	return best, credit
end

local tokens, nextin, full, order = 0, 0, 0, {}
if rate > 0 then
	local step = 1000000 / rate
	full = burst * step
	if wanted > 0 or waits then -- the bucket is full after a pause of burst / rate
		local used = tonumber(redis.call('HGET', key, 'used')) or 0
		used = math.min(math.max(used, now - full), now)
		local have = math.max(math.floor((now - used) / step + 0.000001), 0)
		local credit = numbers(redis.call('HGET', key, 'c'))
		while #order < math.min(have, starts) do
			local picked, after = pick({credit[1], credit[2], credit[3]})
			if not picked or left[picked] == 0 then break end -- nothing waits, or only at another executor
			credit = after
			left[picked] = left[picked] - 1
			order[#order + 1] = picked - 1
		end
		if #order > 0 then
			redis.call('HSET', key, 'c', string.format('%.12f %.12f %.12f', credit[1], credit[2], credit[3]))
		end
		waits = left[1] + left[2] + left[3] > 0
		if not waits and not (elsewhere[1] or elsewhere[2] or elsewhere[3]) then
			tokens = math.max(math.min(wanted, have - #order), 0)
		end
		used = used + (#order + tokens) * step
		if #order + tokens > 0 then
			redis.call('HSET', key, 'used', string.format('%.3f', used))
		end
		if tokens < wanted or waits and #order < starts then
			nextin = math.max(math.ceil(used + step - now), 0)
		end
	end
end
if waits then
	local w = {}
	for c = 1, 3 do w[c] = left[c] > 0 and 1 or 0 end
	redis.call('HSET', key, 'w:' .. ARGV[1], string.format('%d %d %d %d', w[1], w[2], w[3], now + tonumber(ARGV[16])))
else
	redis.call('HDEL', key, 'w:' .. ARGV[1])
end

local taken, others, names = 0, {}, {}
for i = 1, #all, 2 do
	local f = all[i]
	if string.sub(f, 1, 2) == 'e:' and f ~= me then
		local s, w, till = string.match(all[i + 1], '^(%d+) (%d+) (%d+)$')
		if not till or tonumber(till) < now then
			redis.call('HDEL', key, f)
		else
			if tonumber(till) > now + ttl then redis.call('HSET', key, f, string.format('%d %d %d', s, w, now + ttl)) end
			taken = taken + tonumber(s)
			others[#others + 1] = tonumber(w)
			names[#names + 1] = f
		end
	end
end

if wanted == 0 and want == 0 and inuse == 0 and #order == 0 and not waits then
	redis.call('HDEL', key, me)
	return {tokens, nextin, 0, #others}
end

local function share()
	local sum, open = want, math.min(want, 1)
	for _, o in ipairs(others) do
		sum = sum + o
		open = open + math.min(o, 1)
	end
	if sum <= most then return want end
	if most < open then
		if want == 0 then return 0 end
		local place = 0
		for i, o in ipairs(others) do
			if o > 0 and names[i] < me then place = place + 1 end
		end
		local first = math.floor(now / tonumber(ARGV[9])) % open * most % open
		if (place - first + open) % open < most then return 1 end
		return 0
	end
	local level, left = 0, most
	while true do
		local step = math.floor(left / open)
		if step == 0 then return math.min(want, level + 1) end
		level = level + step
		left, open = most - math.min(want, level), 0
		if want > level then open = 1 end
		for _, o in ipairs(others) do
			left = left - math.min(o, level)
			if o > level then open = open + 1 end
		end
		if want <= level or left == 0 then return math.min(want, level) end
	end
end

local slots = 0
if most > 0 then
	slots = math.min(share(), math.max(most - taken, 0))
end
redis.call('HSET', key, me, string.format('%d %d %d', math.max(slots, inuse), math.max(want, inuse), now + ttl))
redis.call('PEXPIRE', key, math.ceil(math.max(ttl, full) / 1000) + 1000)
local reply = {tokens, nextin, slots, #others + 1}
for i = 1, #order do reply[#reply + 1] = order[i] end
return reply
`)
