package flush

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

const (
	// reportEvery is how often a process says how it is.
	reportEvery = 2 * time.Second

	// memberLife is how long it is believed that a process is there which says nothing.
	memberLife = 10 * time.Second

	// checkEvery is how often a process that stands by makes sure that it could work.
	checkEvery = 5 * time.Second

	// giveWay is how long an active process fails before it lets one try that can reach
	// the database.
	giveWay = 30 * time.Second
)

// A Member is a process that runs a job, as it says itself.
type Member struct {
	ID       string        `json:"id"`
	Label    string        `json:"label"`
	Epoch    int64         `json:"epoch"`              // of its term; 0: it stands by
	Ready    bool          `json:"ready"`              // it can reach the database
	Trouble  string        `json:"trouble,omitempty"`  // the last error; "" is none
	Config   string        `json:"config"`             // the same for processes whose mappings are the same
	Started  time.Time     `json:"started"`            // the process, by its clock
	LastPass time.Time     `json:"last_pass,omitzero"` // that succeeded
	Total    Stats         `json:"total"`              // what it has flushed
	Refused  int           `json:"refused"`            // writes and acknowledgements of its own that came after a newer claim
	Scans    []ScanResult  `json:"scans,omitempty"`    // the last of each mapping
	Age      time.Duration `json:"-"`                  // since it said so
}

// self is what an engine knows about its own process.
type self struct {
	mu      sync.Mutex
	me      Member
	refused bool // Redis has refused what the last term asked
	others  []Member
	kick    chan struct{} // something has changed that others want to know
}

func (s *self) change(f func(m *Member)) {
	s.mu.Lock()
	f(&s.me)
	s.mu.Unlock()
	select {
	case s.kick <- struct{}{}:
	default: // a report is due already, or nobody reports
	}
}

// lead notes that a term began, or with 0 that it is over.
func (s *self) lead(epoch int64) { s.change(func(m *Member) { m.Epoch = epoch }) }

// stored notes what a batch did.
func (s *self) stored(stats Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.me.Total.Add(stats)
}

// passed notes the outcome of a pass.
func (s *self) passed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.me.Trouble, s.refused = "", false
	switch {
	case err == nil:
		s.me.LastPass = time.Now().UTC().Truncate(time.Millisecond)
		return
	case errors.Is(err, ErrPaused): // the status says so already
		return
	}
	s.me.Trouble, s.refused = err.Error(), isRefusal(err)
	if isFenced(err) {
		s.me.Refused++
	}
}

// standbyIsReady reports whether another process says that it could work.
func (s *self) standbyIsReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.others {
		if m.ID != s.me.ID && m.Ready && m.Epoch == 0 && m.Age < memberLife {
			return true
		}
	}
	return false
}

// check asks whether the database can be worked with.
func (e *Engine) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkEvery)
	defer cancel()
	err := e.sink.Check(ctx)
	if err == nil {
		err = e.checkDatabase(ctx)
	}
	e.self.mu.Lock()
	defer e.self.mu.Unlock()
	e.self.me.Ready = err == nil
	switch {
	case e.self.me.Epoch != 0:
	case err != nil:
		e.self.me.Trouble, e.self.refused = err.Error(), false
	case !e.self.refused: // what Redis has refused is told until a pass succeeds
		e.self.me.Trouble = ""
	}
	return err
}

// reportAlways tells the others how this process is, until stop is called.
func (e *Engine) reportAlways(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	e.self.mu.Lock()
	e.self.me = Member{
		ID:      rand.Text()[:12],
		Label:   e.cfg.Label,
		Config:  e.configHash(),
		Started: time.Now().UTC().Truncate(time.Second),
	}
	e.self.mu.Unlock()
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = e.report(ctx, false) // the next one tells it
			select {
			case <-ctx.Done():
			case <-e.self.kick:
			case <-time.After(reportEvery):
			}
		}
	}()
	return func() {
		cancel()
		<-done
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = e.report(leave, true) // otherwise it is forgotten by its age
	}
}

// report says how this process is, and hears of the others.
func (e *Engine) report(ctx context.Context, leaves bool) error {
	e.self.mu.Lock()
	me := e.self.me
	e.self.mu.Unlock()
	text := ""
	if !leaves {
		encoded, err := json.Marshal(me)
		if err != nil {
			return err
		}
		text = string(encoded)
	}
	reply, err := e.eval(ctx, memberScript, []string{e.keys.Members}, me.ID, text, formatInt(6*memberLife.Microseconds()))
	if err != nil {
		return err
	}
	v, ok := reply.([]any)
	if !ok || len(v) != 2 {
		return unexpected(reply)
	}
	e.self.mu.Lock()
	defer e.self.mu.Unlock()
	e.self.others = parseMembers(v[1], number(v[0]))
	return nil
}

// parseMembers reads the hash of members. A field that can't be read is left out.
func parseMembers(reply any, nowMicros int64) []Member {
	list, _ := reply.([]any)
	var members []Member
	for i := 0; i+1 < len(list); i += 2 {
		text, _ := list[i+1].(string)
		said, how, _ := strings.Cut(text, " ")
		m := Member{}
		if json.Unmarshal([]byte(how), &m) != nil {
			continue
		}
		m.Age = max(0, time.Duration(nowMicros-number(said))*time.Microsecond)
		members = append(members, m)
	}
	sort.Slice(members, func(i, j int) bool {
		a, b := members[i], members[j]
		if (a.Epoch > 0) != (b.Epoch > 0) {
			return a.Epoch > 0 // who is active comes first
		}
		return a.Label < b.Label || a.Label == b.Label && a.ID < b.ID
	})
	return members
}

func isFenced(err error) bool { return errors.Is(err, sqlfence.ErrFenced) }

// configHash is the same for engines that write the same rows.
func (e *Engine) configHash() string {
	text, err := json.Marshal(e.cfg.Mappings)
	if err != nil {
		return "" // there is nothing in them that can't be encoded
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}
