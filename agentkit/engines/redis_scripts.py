"""What the Redis engine asks of the server: each thing one script, atomic there, over keys of one topic (one hash slot of a cluster).

Every script may be sent again: the answer to the second is that of the first. A topic's `meta` hash holds epoch, head, first, bytes,
fence and the lease; times are the server's, in milliseconds.
"""

from typing import Final

_LIBRARY: Final = """
local function now() local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000) end
local function num(key, field) return tonumber(redis.call('HGET', key, field) or '0') or 0 end
local function stale(meta, fence) return fence ~= '' and tonumber(fence) < num(meta, 'fence') end
local function begin(meta, log, open, ended, epoch)
  redis.call('DEL', log, open, ended)
  redis.call('HSET', meta, 'epoch', epoch, 'head', 0, 'first', 1, 'bytes', 0)
end
local function settle(meta, log)
  local head, first = num(meta, 'head'), num(meta, 'first')
  if first <= head and redis.call('EXISTS', log) == 0 then
    redis.call('HSET', meta, 'first', head + 1, 'bytes', 0)
    first = head + 1
  end
  return head, first
end
local function trim(meta, log, open, head, first, bytes, keep)
  local safe = head + 1
  for _, at in ipairs(redis.call('HVALS', open)) do safe = math.min(safe, tonumber(at)) end
  local oldest, upto, done = now() / 1000 - keep.age, first, false
  while not done do
    local some = redis.call('XRANGE', log, upto .. '-0', '+', 'COUNT', 64)
    if #some == 0 then break end
    for _, entry in ipairs(some) do
      local data = entry[2][2]
      local size, time = string.match(data, '^(%d+) ([%d.e+-]+)')
      size = tonumber(size)
      local over = head - upto >= keep.records or bytes > keep.bytes or tonumber(time) < oldest
      if not (over and upto < safe) and bytes <= keep.running then done = true break end
      bytes = bytes - size
      upto = upto + 1
    end
  end
  if upto > first then
    redis.call('XTRIM', log, 'MINID', upto .. '-0')
    redis.call('HSET', meta, 'first', upto, 'bytes', bytes)
  end
end
local function add(meta, log, open, ended, channel, keep, at)
  local head, first = num(meta, 'head'), num(meta, 'first')
  local bytes, seq = num(meta, 'bytes'), head
  local said, size, noted = {}, 0, {}
  for i = at, #ARGV, 3 do
    local run, terminal, data = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    seq = seq + 1
    redis.call('XADD', log, seq .. '-0', 'd', data)
    bytes = bytes + tonumber(string.match(data, '^%d+'))
    size = size + #data
    said[#said + 1] = #data .. '\\n'
    said[#said + 1] = data
    if run ~= '' then
      if terminal == '1' then
        redis.call('SADD', ended, run)
        redis.call('HDEL', open, run)
      elseif not noted[run] then
        noted[run] = true
        redis.call('HSETNX', open, run, seq)
      end
    end
  end
  redis.call('HSET', meta, 'head', seq, 'bytes', bytes)
  redis.call('PERSIST', meta)
  for _, key in ipairs({log, open, ended}) do redis.call('PEXPIRE', key, keep.ttl) end
  local epoch = redis.call('HGET', meta, 'epoch')
  local from = epoch .. ' ' .. (head + 1) .. ' '
  if size < 262144 then
    redis.call('PUBLISH', channel, 'r ' .. from .. (#said / 2) .. '\\n' .. table.concat(said))
  else
    redis.call('PUBLISH', channel, 'r ' .. from .. '0\\n')
  end
  local slack = math.min(256, math.floor(keep.records / 10))
  if seq - first >= keep.records + slack or bytes > keep.bytes * 17 / 16
      or math.floor(seq / 256) ~= math.floor(head / 256) then
    trim(meta, log, open, seq, first, bytes, keep)
  end
  return {'ok', epoch, head + 1}
end
local function kept(i)
  return {records = tonumber(ARGV[i]), bytes = tonumber(ARGV[i + 1]), age = tonumber(ARGV[i + 2]),
    running = tonumber(ARGV[i + 3]), ttl = math.ceil(tonumber(ARGV[i + 2]) * 1000)}
end
"""

APPEND: Final = (
    _LIBRARY
    + """
-- KEYS meta log open ended retried; ARGV channel records bytes age running fence batch again epoch known-epoch known-head, then run terminal data
local meta, log, open, ended, retried = unpack(KEYS)
local keep, fence, batch, again = kept(2), ARGV[6], ARGV[7], ARGV[8]
local epoch = redis.call('HGET', meta, 'epoch')
if redis.call('EXISTS', retried) == 1 then
  local done = redis.call('HGET', retried, batch)
  if done then return {'ok', epoch, tonumber(done)} end
end
if again == '1' and epoch then
  local at, mark = '+', ' ' .. batch .. '\\n'
  for _ = 1, 50 do
    local some = redis.call('XREVRANGE', log, at, '-', 'COUNT', 64)
    for _, entry in ipairs(some) do
      local data = entry[2][2]
      local line = string.sub(data, 1, string.find(data, '\\n', 1, true))
      if string.sub(line, -#mark) == mark then return {'ok', epoch, tonumber(string.match(entry[1], '^%d+'))} end
      at = '(' .. entry[1]
    end
    if #some < 64 then break end
  end
end
if stale(meta, fence) then return {'lost'} end
if not epoch or (epoch == ARGV[10] and num(meta, 'head') < tonumber(ARGV[11])) then
  begin(meta, log, open, ended, ARGV[9])
end
settle(meta, log)
local ending, going = {}, {}
for i = 12, #ARGV, 3 do
  local run = ARGV[i]
  if run ~= '' then
    if ending[run] or (not going[run] and redis.call('SISMEMBER', ended, run) == 1) then return {'ended', run} end
    going[run] = true
    if ARGV[i + 1] == '1' then ending[run] = true end
  end
end
local answer = add(meta, log, open, ended, ARGV[1], keep, 12)
if again == '1' then
  redis.call('HSET', retried, batch, answer[3])
  redis.call('EXPIRE', retried, 60)
end
return answer
"""
)

READ: Final = (
    _LIBRARY
    + """
-- KEYS meta log open ended; ARGV epoch of the cursor, its seq (-1: now), limit, new epoch
local meta, log, open, ended = unpack(KEYS)
local epoch = redis.call('HGET', meta, 'epoch')
if not epoch then
  epoch = ARGV[4]
  begin(meta, log, open, ended, epoch)
  redis.call('EXPIRE', meta, 86400)
end
local head, first = settle(meta, log)
local seq = tonumber(ARGV[2])
if seq < 0 then seq = head elseif ARGV[1] ~= epoch then seq = 0 end
seq = math.max(seq, first - 1)
local out, limit = {epoch, first, head, redis.call('HGET', meta, 'erased') or ''}, tonumber(ARGV[3])
if seq < head and limit > 0 then
  for _, entry in ipairs(redis.call('XRANGE', log, (seq + 1) .. '-0', '+', 'COUNT', limit)) do
    out[#out + 1] = entry[2][2]
  end
end
return out
"""
)

DELETE: Final = (
    _LIBRARY
    + """
-- KEYS meta log open ended; ARGV epoch channel
local old = redis.call('HGET', KEYS[1], 'epoch')
if old ~= ARGV[1] then
  begin(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1])
  redis.call('HSET', KEYS[1], 'erased', old or '')
end
redis.call('PUBLISH', ARGV[2], 'x')
return {'ok'}
"""
)

ACQUIRE: Final = (
    _LIBRARY
    + """
-- KEYS meta waiters waiting tickets announced; ARGV run token ttl wait(0/1)
local meta, waiters, waiting, tickets, announced = unpack(KEYS)
local run, token, ttl, at = ARGV[1], ARGV[2], tonumber(ARGV[3]), now()
redis.call('HDEL', announced, run)
local lease = redis.call('HMGET', meta, 'lease_token', 'lease_run', 'lease_fence', 'lease_ends')
if lease[1] == token then return {'granted', lease[3]} end
if lease[1] and tonumber(lease[4]) < at then return {'expired', lease[1], lease[2]} end
local first
for _, other in ipairs(redis.call('ZRANGE', waiters, 0, -1)) do
  local found = redis.call('HGET', waiting, other)
  local ends, who = string.match(found or '0 ', '^(%d+) (.*)$')
  if other ~= token and tonumber(ends) < at then return {'expired', other, who} end
  first = first or other
end
if not lease[1] and (not first or first == token) then
  local fence = math.max(num(meta, 'fence') + 1, at)
  fence = string.format('%.0f', fence)
  redis.call('ZREM', waiters, token)
  redis.call('HDEL', waiting, token)
  redis.call('HSET', meta, 'fence', fence, 'lease_token', token, 'lease_run', run, 'lease_fence', fence,
    'lease_ends', string.format('%.0f', at + ttl))
  redis.call('PERSIST', meta)
  return {'granted', fence}
end
if ARGV[4] == '0' then return {'busy'} end
if not redis.call('ZSCORE', waiters, token) then redis.call('ZADD', waiters, redis.call('INCR', tickets), token) end
redis.call('HSET', waiting, token, string.format('%.0f ', at + ttl) .. run)
return {'waits'}
"""
)

LOSE: Final = (
    _LIBRARY
    + """
-- KEYS meta log open ended waiters waiting runs announced
-- ARGV channel records bytes age running token ('': the run was only announced) run record epoch, then run terminal data
local meta, log, open, ended, waiters, waiting, runs, announced = unpack(KEYS)
local token, run, at = ARGV[6], ARGV[7], now()
if token == '' then
  local ends = tonumber(redis.call('HGET', announced, run) or '')
  if not ends then return {'gone'} end
  if ends >= at then return {'alive', ends} end
  redis.call('HDEL', announced, run)
  if redis.call('HGET', meta, 'lease_run') == run then return {'gone'} end
  for _, found in ipairs(redis.call('HVALS', waiting)) do
    if string.match(found, '^%d+ (.*)$') == run then return {'gone'} end
  end
elseif redis.call('HGET', meta, 'lease_token') == token then
  if num(meta, 'lease_ends') >= at then return {'alive', num(meta, 'lease_ends')} end
  redis.call('HDEL', meta, 'lease_token', 'lease_run', 'lease_fence', 'lease_ends')
  redis.call('HSET', meta, 'fence', string.format('%.0f', num(meta, 'fence') + 1))
elseif redis.call('ZSCORE', waiters, token) then
  local ends = tonumber(string.match(redis.call('HGET', waiting, token) or '0', '^%d+'))
  if ends >= at then return {'alive', ends} end
  redis.call('ZREM', waiters, token)
  redis.call('HDEL', waiting, token)
else
  return {'gone'}
end
if ARGV[8] ~= '' then redis.call('HSET', runs, run, ARGV[8]) end
if not redis.call('HGET', meta, 'epoch') then begin(meta, log, open, ended, ARGV[9]) end
settle(meta, log)
if #ARGV > 9 and redis.call('SISMEMBER', ended, run) == 0 then
  add(meta, log, open, ended, ARGV[1], kept(2), 10)
end
redis.call('PUBLISH', ARGV[1], 'f')
return {'lost'}
"""
)

RENEW: Final = (
    _LIBRARY
    + """
-- KEYS meta; ARGV run token fence ttl. A server that lost its data lost the lease too: whoever has the newest takes it again.
local meta, ends = KEYS[1], string.format('%.0f', now() + tonumber(ARGV[4]))
local holder = redis.call('HGET', meta, 'lease_token')
if holder == ARGV[2] then
  redis.call('HSET', meta, 'lease_ends', ends)
elseif not holder and num(meta, 'fence') < tonumber(ARGV[3]) then
  redis.call('HSET', meta, 'fence', ARGV[3], 'lease_token', ARGV[2], 'lease_run', ARGV[1], 'lease_fence', ARGV[3],
    'lease_ends', ends)
else
  return {'lost'}
end
return {'ok'}
"""
)

RELEASE: Final = """
-- KEYS meta waiters waiting; ARGV token channel
if redis.call('HGET', KEYS[1], 'lease_token') == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'lease_token', 'lease_run', 'lease_fence', 'lease_ends')
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('PUBLISH', ARGV[2], 'f')
return {'ok'}
"""

HOLDER: Final = (
    _LIBRARY
    + """
-- KEYS meta
if num(KEYS[1], 'lease_ends') < now() then return {} end
return {redis.call('HGET', KEYS[1], 'lease_run')}
"""
)

WRITE_THREAD: Final = (
    _LIBRARY
    + """
-- KEYS meta thread messages runs order claims announced; ARGV fence time what batch, then what it needs
local meta, thread, messages, runs, order, claims, announced = unpack(KEYS)
if stale(meta, ARGV[1]) then return {'lost'} end
redis.call('HSETNX', thread, 'created', ARGV[2])
redis.call('HSET', thread, 'updated', ARGV[2])
local function put(run, record, ttl)
  if redis.call('HSET', runs, run, record) == 1 then redis.call('RPUSH', order, run) end
  if ttl == '' then
    redis.call('HDEL', announced, run)
  else
    redis.call('HSET', announced, run, string.format('%.0f', now() + tonumber(ttl)))
  end
end
local what = ARGV[3]
if what == 'extend' then
  if redis.call('HGET', thread, 'batch') ~= ARGV[4] then
    for i = 5, #ARGV do redis.call('RPUSH', messages, ARGV[i]) end
    redis.call('HSET', thread, 'batch', ARGV[4])
  end
elseif what == 'run' then
  put(ARGV[5], ARGV[6], ARGV[7])
elseif what == 'swap' then
  local found = redis.call('HGET', runs, ARGV[5])
  if found == ARGV[8] then put(ARGV[5], ARGV[6], ARGV[7])
  elseif found ~= ARGV[6] then return {'changed'} end
elseif what == 'claim' then
  if redis.call('HSETNX', claims, ARGV[8], ARGV[5]) == 1 then put(ARGV[5], ARGV[6], ARGV[7]) end
  return {redis.call('HGET', claims, ARGV[8])}
elseif what == 'describe' then
  for i = 5, #ARGV, 2 do redis.call('HSET', thread, ARGV[i], ARGV[i + 1]) end
end
return {'ok'}
"""
)

NOTE: Final = (
    _LIBRARY
    + """
-- KEYS index; ARGV milliseconds from now, name
redis.call('ZADD', KEYS[1], string.format('%.0f', now() + tonumber(ARGV[1])), ARGV[2])
return {'ok'}
"""
)

DUE: Final = (
    _LIBRARY
    + """
-- KEYS index. The server's time, and the names whose time has come: a few.
local at = now()
local out = {string.format('%.0f', at)}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', at, 'LIMIT', 0, 100)) do out[#out + 1] = name end
return out
"""
)

FORGET: Final = """
-- KEYS index; ARGV name, the time of the look. What was noted anew meanwhile stays.
local due = redis.call('ZSCORE', KEYS[1], ARGV[1])
if due and tonumber(due) <= tonumber(ARGV[2]) then redis.call('ZREM', KEYS[1], ARGV[1]) end
return {'ok'}
"""

RUNS: Final = """
-- KEYS runs order; ARGV the run that stands before ('' for none), how many at most (-1: all)
local runs, order = unpack(KEYS)
local after, limit, at = ARGV[1], tonumber(ARGV[2]), 0
local found = after == ''
while not found do
  local some = redis.call('LRANGE', order, at, at + 255)
  if #some == 0 then break end
  for _, run in ipairs(some) do
    at = at + 1
    if run == after then found = true break end
  end
end
local out = {}
if limit == 0 then return out end
for _, run in ipairs(redis.call('LRANGE', order, at, limit < 0 and -1 or at + limit - 1)) do
  local record = redis.call('HGET', runs, run)
  if record then out[#out + 1] = record end
end
return out
"""
