package pipe

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockkeepertest"
)

// A server is a Redis in memory, as it looks from a network.
type server struct {
	w      *world
	memory *lockkeepertest.Memory
	ctx    context.Context // ends with the server
	stop   context.CancelFunc

	mu       sync.Mutex // also makes a script and the look at what it did one step
	known    map[string]bool
	until    map[kind]time.Time // slow, stopped, restarted
	lag      time.Duration      // while it is slow
	links    []*link
	sessions sync.WaitGroup
}

func newServer(w *world) *server {
	s := &server{w: w, memory: lockkeepertest.NewMemory(), known: make(map[string]bool), until: make(map[kind]time.Time)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// link makes the network of a new process.
func (s *server) link(who string, rng *rand.Rand) *link {
	l := newLink(s, who, rng)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = append(s.links, l)
	return l
}

func (s *server) accept(l *link, end *wire) {
	c := newSession(s, l, end)
	l.add(c)
	s.sessions.Go(c.serve)
}

func (s *server) left(k kind) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.until[k]; ok {
		return time.Until(at)
	}
	return 0
}

// isDown reports whether the server is not there.
func (s *server) isDown() bool { return s.left(restarted) > 0 || s.left(emptied) > 0 }

// lags is what a slow server takes for a request.
func (s *server) lags() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Until(s.until[slow]) > 0 {
		return s.lag
	}
	return 0
}

// apply makes a fault of the server happen.
func (s *server) apply(f fault, rng *rand.Rand) {
	switch f.Kind {
	case restarted, emptied:
		for _, l := range s.all() {
			l.mu.Lock()
			l.each(func(c *session) { c.kill() })
			l.mu.Unlock()
		}
		if f.Kind == emptied {
			s.memory.Flush()
		}
	case evicted:
		if keys := s.memory.Keys(); len(keys) > 0 {
			s.memory.Del(pick(rng, keys))
		}
	case stepped:
		s.memory.StepClock(f.Lasts * time.Duration(1-2*rng.IntN(2)))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Kind == restarted || f.Kind == emptied || f.Kind == noScripts {
		clear(s.known)
	}
	if f.Kind == slow {
		s.lag = upTo(rng, 30*time.Millisecond)
	}
	if f.Lasts > 0 {
		s.until[f.Kind] = time.Now().Add(f.Lasts)
	}
}

func (s *server) all() []*link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.links)
}

// heal ends everything that is wrong.
func (s *server) heal() {
	for _, l := range s.all() {
		l.heal()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.until)
}

// close refuses and cuts every connection, and waits for their goroutines.
func (s *server) close() {
	s.stop()
	for _, l := range s.all() {
		l.mu.Lock()
		open := slices.Collect(maps.Keys(l.sessions))
		l.mu.Unlock()
		for _, c := range open {
			c.kill()
		}
	}
	s.sessions.Wait()
	// Connections that nobody waits for any more are tried for a few times yet.
	time.Sleep(2 * time.Second)
}

// run runs a script. The answer to one that is not known is for the client to deal with.
func (s *server) run(verb string, args []string) any {
	script, keys, rest, ok := splitScript(args)
	if !ok {
		return errorLine("ERR wrong number of arguments")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if verb == "EVALSHA" && !s.known[script] {
		return errorLine("NOSCRIPT No matching script. Please use EVAL.")
	}
	var reply any
	var err error
	if verb == "EVAL" {
		reply, err = s.memory.Eval(context.Background(), script, keys, rest)
		s.known[shaOf(script)] = true
	} else {
		reply, err = s.memory.EvalSha(context.Background(), script, keys, rest)
	}
	s.w.saw(keys, rest, reply)
	if err != nil {
		return replyError(err)
	}
	return reply
}

// drift lets the server's clock run faster than those of the clients.
func (s *server) drift(ctx context.Context, thousandths int) {
	if thousandths == 0 {
		return
	}
	const step = 20 * time.Millisecond
	for sleep(ctx, step) == nil {
		s.memory.StepClock(step * time.Duration(thousandths) / 1000)
	}
}

// isLock reports whether a key is that of a lock, and not one that derives from it.
func isLock(key string) bool { return !strings.HasPrefix(key, "{") }
