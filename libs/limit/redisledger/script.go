package redisledger

import "github.com/redis/go-redis/v9"

// exchange is one wish of one executor for one app, in one step: of two that run at once each sees what the other took. The key is a hash:
//
//	used       µs of Redis's clock, until when the tokens that were given reach at the rate; never in the future
//	e:<name>   an executor: "<slots, those of calls that run included> <wanted> <till in µs>"
//
// All times are Redis's: executors' clocks do not matter, and a failover to a server whose clock is behind costs at most a full bucket.
//
//	ARGV: 1 executor, 2 rate, 3 burst, 4 tokens wanted, 5 limit of calls at once, 6 in use, 7 slots wanted, 8 slot TTL in µs, 9 turn in µs
//	returns tokens, µs until the next, slots, executors
//
// Dividing the slots is limit.Share, in Lua.
//
//nolint:dupword // an end follows an end
var exchange = redis.NewScript(`
local key, me = KEYS[1], 'e:' .. ARGV[1]
local rate, burst, wanted = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local most, inuse, want, ttl = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

local tokens, nextin, full = 0, 0, 0
if rate > 0 then
	local step = 1000000 / rate
	full = burst * step
	if wanted > 0 then -- a bucket that is full after a pause of burst / rate
		local used = tonumber(redis.call('HGET', key, 'used')) or 0
		used = math.min(math.max(used, now - full), now)
		tokens = math.max(math.min(wanted, math.floor((now - used) / step + 0.000001)), 0)
		used = used + tokens * step
		if tokens > 0 then
			redis.call('HSET', key, 'used', string.format('%.3f', used))
		end
		if tokens < wanted then
			nextin = math.max(math.ceil(used + step - now), 0)
		end
	end
end

local taken, others, names = 0, {}, {}
local all = redis.call('HGETALL', key)
for i = 1, #all, 2 do
	local f = all[i]
	if string.sub(f, 1, 2) == 'e:' and f ~= me then
		local s, w, till = string.match(all[i + 1], '^(%d+) (%d+) (%d+)$')
		if not till or tonumber(till) < now then
			redis.call('HDEL', key, f)
		else
			taken = taken + tonumber(s)
			others[#others + 1] = tonumber(w)
			names[#names + 1] = f
		end
	end
end

if wanted == 0 and want == 0 and inuse == 0 then
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
return {tokens, nextin, slots, #others + 1}
`)
