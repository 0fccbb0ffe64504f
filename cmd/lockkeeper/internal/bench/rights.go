package bench

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper"
)

// probeScript tries each command that locks may use, and returns those that the user may
// not use. It leaves nothing behind: of what it writes with HSET, which can't be tried
// otherwise, it is sure that it may delete it.
// KEYS: 1 lock, 2 another of its keys, neither of which is there. ARGV: 1 a channel that
// nobody listens to.
const probeScript = `
local missing = {}
local commands = {
  {'time'}, {'get', KEYS[1]}, {'set', KEYS[1], '', 'PX', '1000', 'XX'}, {'del', KEYS[1]}, {'exists', KEYS[1]},
  {'pttl', KEYS[1]}, {'pexpire', KEYS[1], '1000'},
  {'zadd', KEYS[2], 'XX', '1', 'x'}, {'zrem', KEYS[2], 'x'}, {'zcard', KEYS[2]},
  {'zrange', KEYS[2], '0', '1'}, {'zrank', KEYS[2], 'x'},
  {'hget', KEYS[2], 'x'}, {'hdel', KEYS[2], 'x'},
  {'publish', ARGV[1], ''}, {'pubsub', 'numsub', ARGV[1]}, {'info', 'cluster'},
}
if type(redis.pcall('del', KEYS[2])) == 'number' then
  commands[#commands + 1] = {'hset', KEYS[2], 'x', ''}
end
for _, command in ipairs(commands) do
  local reply = redis.pcall(unpack(command))
  local err = type(reply) == 'table' and reply.err or ''
  if string.find(err, 'NOPERM', 1, true) or string.find(err, 'user executing the script', 1, true) then
    local name = command[1] == 'pubsub' and 'pubsub|numsub' or command[1]
    missing[#missing + 1] = string.find(err, 'channel', 1, true) and '&' or '+' .. name
  end
end
redis.pcall('del', KEYS[2])
return missing`

// missingRights returns the rights that the user of Redis lacks, of those that locks may
// use: what the server says of a command in a script does not always name it. Not all of
// them need be used by the locks of today, so that this alone is no error. An error is
// that there can't be locks at all.
func (b *bench) missingRights(ctx context.Context, conn lockkeeper.Conn) ([]string, error) {
	keys := keysOf(b.keyPrefix() + b.name("rights"))
	channel := b.keyPrefix() + "wake:" + b.name("rights")
	reply, err := conn.Eval(ctx, probeScript, []string{keys[0], keys[2]}, []string{channel})
	if err != nil {
		return nil, b.refusedKeys(ctx, conn, keys, err)
	}
	var missing []string
	list, _ := reply.([]any)
	for _, one := range list {
		if right, ok := one.(string); ok {
			missing = append(missing, right)
		}
	}
	if right := mayListen(ctx, conn, channel); right != "" && !slices.Contains(missing, right) {
		missing = append(missing, right)
	}
	for i, right := range missing {
		if right == "&" {
			missing[i] = b.channels()
		}
	}
	return missing, nil
}

// channels is the right to the channels on which clients are woken.
func (b *bench) channels() string { return "&" + b.keyPrefix() + "wake:*" }

// isForWaking reports whether locks work without the right, while who waits polls.
func (b *bench) isForWaking(right string) bool {
	return right == "+publish" || right == "+subscribe" || right == b.channels()
}

// isForTheDead reports whether locks work without the right, while a waiter that has died
// is not seen to be dead.
func isForTheDead(right string) bool { return right == "+pubsub|numsub" || right == "+info" }

// refusedKeys makes an error of the probe one that names the keys, if it is about them.
func (b *bench) refusedKeys(ctx context.Context, conn lockkeeper.Conn, keys []string, err error) error {
	if !noPermission(err) {
		return err
	}
	if _, err := conn.Eval(ctx, "return 1", nil, nil); err != nil {
		return err // no script at all, and the server names the command
	}
	var missing []string
	for _, key := range []string{keys[0], keys[2]} {
		if _, err := conn.Eval(ctx, "return 1", []string{key}, nil); noPermission(err) {
			begin, _, _ := strings.Cut(key, b.name("rights"))
			missing = append(missing, "~"+begin+"*")
		}
	}
	if len(missing) == 0 {
		return err
	}
	return &RightsError{Missing: missing, Err: err}
}

// noPermission reports whether an error says that the user lacks a right; the second form
// is that of Redis 7.0 for a command in a script.
func noPermission(err error) bool {
	var reply *lockkeeper.ReplyError
	return errors.As(err, &reply) &&
		(reply.Code == "NOPERM" || strings.Contains(reply.Message, "user executing the script can't"))
}

// mayListen returns the right that is missing for a subscription, or "".
func mayListen(ctx context.Context, conn lockkeeper.Conn, channel string) string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := conn.Listen(ctx, channel, cancel, func(string) {})
	var reply *lockkeeper.ReplyError
	switch {
	case !errors.As(err, &reply) || reply.Code != "NOPERM":
		return ""
	case strings.Contains(reply.Message, "channel"):
		return "&"
	}
	return "+subscribe"
}
