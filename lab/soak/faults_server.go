package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func (n *nemesis) stopServer() action {
	d := n.ttls(0.2, 2)
	return n.onServer("server stopped", lasts(d), func(ctx context.Context) bool {
		stopProcess(n.server.cmd.Process)
		pause(ctx, d)
		resumeProcess(n.server.cmd.Process)
		return true
	})
}

func (n *nemesis) restartServer() action {
	return n.restart("server killed, back with its data", func() ([]string, error) { return nil, nil })
}

// slowRestart lets the server load its data for a while, in which it says so to everybody.
func (n *nemesis) slowRestart() action {
	return n.restart("server killed, back and loading", func() ([]string, error) {
		file, err := n.server.lastWrites()
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		// A negative delay is how many writes are loaded before each sleep, of which there
		// are so many that it takes about half a second.
		const bytesOfAWrite, sleeps = 60, 6000
		return []string{"--key-load-delay", strconv.FormatInt(-max(1, info.Size()/bytesOfAWrite/sleeps), 10)}, nil
	})
}

// restart kills the server and starts it again, with what prepare says.
func (n *nemesis) restart(kind string, prepare func() (options []string, err error)) action {
	d := n.ttls(0, 1.5)
	return n.onServer(kind, "after "+d.String(), func(ctx context.Context) bool {
		n.server.kill()
		pause(ctx, d)
		options, err := prepare()
		if err == nil {
			err = n.server.start(context.WithoutCancel(ctx), options...)
		}
		if err != nil {
			n.fail(err)
		}
		return err == nil
	})
}

// A setting is a fault of the server's settings: what makes it, and what takes it back.
type setting struct {
	harm, undo [][]string
}

// settings are in the order in which they can be taken back whatever is wrong.
var (
	noRoom      = config("maxmemory", "1", "0")
	noDisk      = setting{[][]string{{"CONFIG", "SET", "save", "3600 1"}, {"BGSAVE"}}, [][]string{{"CONFIG", "SET", "save", ""}}}
	readOnly    = setting{[][]string{{"REPLICAOF", "127.0.0.1", "1"}}, [][]string{{"REPLICAOF", "NO", "ONE"}}} // nobody is there
	silent      = config("replica-serve-stale-data", "no", "yes")
	noBuffer    = config("client-output-buffer-limit", "pubsub 1024 1024 1", "pubsub 33554432 8388608 60")
	noScripts   = rights("-eval", "-evalsha")
	noChannels  = rights("resetchannels")
	nobody      = setting{[][]string{{"ACL", "DELUSER", workerUser}}, rights().undo}
	connections = config("maxclients", "1", "10000")
	evicting    = config("maxmemory-policy", "allkeys-random", "noeviction")
)

func config(name, harm, normal string) setting {
	return setting{[][]string{{"CONFIG", "SET", name, harm}}, [][]string{{"CONFIG", "SET", name, normal}}}
}

// rights changes those of the workers.
func rights(rules ...string) setting {
	user := []string{"ACL", "SETUSER", workerUser}
	return setting{[][]string{append(user[:3:3], rules...)}, [][]string{append(user[:3:3], allRights...)}}
}

// mend makes the server as it was.
func (n *nemesis) mend(ctx context.Context) error {
	_, _ = n.server.do(ctx, "SCRIPT", "KILL") // it is an error that there is none
	_, err := n.server.do(ctx, "CLIENT", "UNPAUSE")
	for _, s := range []setting{connections, readOnly, silent, noRoom, evicting, noDisk, noBuffer, nobody} {
		for _, command := range s.undo {
			_, failed := n.server.do(ctx, command...)
			err = errors.Join(err, failed)
		}
	}
	return err
}

// set is a fault of settings that lasts for a while.
func (n *nemesis) set(kind, how string, least, most float64, settings ...setting) action {
	d := n.ttls(least, most)
	return n.onSettings(kind, strings.TrimSpace(how+" "+lasts(d)), func(ctx context.Context) bool {
		done := true
		for _, s := range settings {
			for _, command := range s.harm {
				done = done && n.tell(ctx, command...)
			}
		}
		if done {
			pause(ctx, d)
		}
		for _, s := range settings {
			n.insist(s.undo)
		}
		return done
	})
}

// onSettings is a fault of the server's settings. The server itself may be stopped or
// killed meanwhile.
func (n *nemesis) onSettings(kind, how string, run func(ctx context.Context) bool) action {
	if !n.setting.TryLock() {
		return action{}
	}
	return action{kind, how, func(ctx context.Context) bool {
		defer n.setting.Unlock()
		return run(ctx)
	}}
}

// insist repeats commands until the server has answered each, but not for ever: a server
// that is down has no settings, and healing mends what is left.
func (n *nemesis) insist(commands [][]string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, command := range commands {
		for ctx.Err() == nil && !n.tell(ctx, command...) {
			pause(ctx, 10*time.Millisecond)
		}
	}
}

func (n *nemesis) fillMemory() action { return n.set("out of memory", "", 0.2, 1.5, noRoom) }

func (n *nemesis) failDisk() action { return n.set("disk that fails", "", 0.2, 1.5, noDisk) }

func (n *nemesis) makeReplica() action { return n.set("read-only replica", "", 0.2, 1.5, readOnly) }

func (n *nemesis) makeSilentReplica() action {
	return n.set("replica that answers nothing", "", 0.2, 1.5, silent, readOnly)
}

// The kinds of faults in which a refusal is right.
var rightsFaults = []string{kindDenyScripts, kindDenyCommand, kindDenyChannels, kindDeleteUser}

const (
	kindDenyScripts  = "no right to run scripts"
	kindDenyCommand  = "no right to run a command of the scripts"
	kindDenyChannels = "no right to the channels"
	kindDeleteUser   = "user deleted and made again"
)

func (n *nemesis) denyScripts() action { return n.set(kindDenyScripts, "", 0.1, 1, noScripts) }

func (n *nemesis) denyChannels() action { return n.set(kindDenyChannels, "", 0.1, 1, noChannels) }

func (n *nemesis) deleteUser() action { return n.set(kindDeleteUser, "", 0.05, 0.5, nobody) }

// denyCommand lets scripts fail in the middle. PEXPIRE is left out: without it, a line may
// have no TTL until somebody joins it again.
func (n *nemesis) denyCommand() action {
	commands := []string{
		"time", "get", "set", "exists", "pttl", "zadd", "zrange", "zrank", "zcard", "zrem", "hget", "hset", "hdel", "publish", "pubsub",
	}
	command := commands[n.rng.IntN(len(commands))]
	return n.set(kindDenyCommand, command, 0.1, 1, rights("-"+command))
}

// busyScript keeps the server busy: others are told so, after 50 ms.
func (n *nemesis) busyScript() action {
	d := n.ttls(0.3, 2)
	return n.onSettings("busy script", lasts(d), func(ctx context.Context) bool {
		over := make(chan bool)
		go func() {
			// It ends by itself, should everything else fail.
			_, err := n.server.do(context.WithoutCancel(ctx), "EVAL", "for i = 1, 3e9 do end return 1", "0")
			over <- err != nil && strings.Contains(err.Error(), "SCRIPT KILL")
		}()
		pause(ctx, d)
		for {
			select {
			case killed := <-over:
				return killed
			case <-time.After(10 * time.Millisecond):
				n.tell(context.Background(), "SCRIPT", "KILL")
			}
		}
	})
}

// floodSubscriptions makes the server cut subscribers that do not read fast enough: it has
// no patience at all, and a message that is too long.
func (n *nemesis) floodSubscriptions() action {
	return n.onSettings("subscriptions cut for their backlog", "", func(ctx context.Context) bool {
		defer n.insist(noBuffer.undo)
		if !n.tell(ctx, noBuffer.harm[0]...) {
			return false
		}
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		reply, err := n.server.do(ctx, "PUBSUB", "CHANNELS")
		channels, _ := reply.([]any)
		for _, channel := range channels {
			_, failed := n.server.do(ctx, "PUBLISH", channel.(string), strings.Repeat("x", 64<<10))
			err = errors.Join(err, failed)
		}
		return err == nil && len(channels) > 0
	})
}

// limitConnections lets nobody in, and cuts a worker. The command that takes it back needs
// a connection that is there already, so nobody may stop the server.
func (n *nemesis) limitConnections() action {
	d := n.ttls(0.2, 2)
	s := n.slot()
	if !n.serving.TryLock() {
		return action{}
	}
	a := n.onSettings("no more connections", fmt.Sprintf("%s, those of worker %d cut", lasts(d), s.index+1), func(ctx context.Context) bool {
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWithin)
		defer cancel()
		if _, err := n.server.do(patient, connections.harm[0]...); err != nil {
			return false
		}
		s.proxy.CutAll()
		pause(ctx, d)
		_, err := n.server.do(patient, connections.undo[0]...)
		for patient.Err() == nil && err != nil {
			pause(patient, 10*time.Millisecond)
			_, err = n.server.do(patient, connections.undo[0]...)
		}
		if err != nil {
			n.fail(fmt.Errorf("let connections in again: %w", err))
		}
		return true
	})
	if a.run == nil {
		n.serving.Unlock()
		return a
	}
	return action{a.kind, a.how, func(ctx context.Context) bool {
		defer n.serving.Unlock()
		return a.run(ctx)
	}}
}

// clockBack sets the server's wall clock back, by which it expires keys: they live longer.
func (n *nemesis) clockBack() action {
	if n.server.clock == nil {
		return action{}
	}
	by := n.ttls(0.05, 0.4)
	return action{"server's clock set back", "by " + by.String(), func(context.Context) bool {
		n.journal.write(event{What: back, N: int64(by)})
		return n.server.clock.step(-by)
	}}
}

// counterAhead moves the fence counters far ahead of the clock: fences grow by the counter
// alone then. When it is lost next, fences go back, and claims are refused until they are
// repaired.
func (n *nemesis) counterAhead() action {
	return action{"fence counters set ahead", "by a minute", func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		done := false
		for _, lock := range n.Locks {
			// A counter that is lost meanwhile must not be made anew, without a TTL.
			reply, err := n.server.do(ctx, "EVAL", "return redis.call('EXISTS', KEYS[1]) == 1 and redis.call('INCRBY', KEYS[1], ARGV[1])",
				"1", "{"+keyOf(lock)+"}"+fenceSuffix, strconv.FormatInt(time.Minute.Microseconds(), 10))
			done = done || err == nil && reply != nil
		}
		return done
	}}
}
