package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A what is the kind of an event.
type what string

// Of a worker. In brackets: the fields beside At, Call and Name.
const (
	starts   what = "starts"   // [Text: adapter]
	asks     what = "asks"     // a call begins [Text: acquire, try or do]
	failed   what = "failed"   // it ended without a lease [Text: kind, N: ns since its context ended, Error: code of a refusal]
	stale    what = "stale"    // it returned a lease that was over already [Fence]
	held     what = "held"     // it returned a lease that was believed at At [Fence, Owner, Until]
	renewed  what = "renewed"  // the lease's deadline has moved [Until]
	wrote    what = "wrote"    // a commit was reported [Value, Text: its entry in the log]
	fenced   what = "fenced"   // the database refused a write
	dbBusy   what = "busy"     // the database was in another's hand for too long
	ended    what = "ended"    // the lease was over, At is after that was seen [Text: kind, Error]
	free     what = "free"     // the lease was believed at At, and is given back next
	released what = "released" // giving it back has ended, at At [Text: kind, Kind: do if that did it]
	step     what = "step"     // work that was begun because the lease was said to be valid at At [Fence, Owner]
	asked    what = "asked"    // a script is asked, from At on [Text: script, Request, Owner, Next]
	answered what = "answered" // its answer was there at At [Text: outcome, Request, see recorder]
	heard    what = "heard"    // the lock was handed to an owner [Fence, Owner, Value: server time]
	closing  what = "closing"  // Client.Close is called next
	closed   what = "closed"   // Client.Close has returned [N: ns it took]
	stall    what = "stall"    // something took long from At on, through no fault of the lock [Text: what, N: ns]
	odd      what = "odd"      // what must not be [Text]
	leak     what = "leak"     // goroutines were left [Text: their stacks]
	bye      what = "bye"      // the worker ends
)

// Of the parent. Who is the worker that it is about.
const (
	fault  what = "fault"  // from At to Until [Kind, Text: how, and of whom]
	quiet  what = "quiet"  // there was none from At to Until
	killed what = "killed" // Who gets SIGKILL next
	told   what = "told"   // Who is asked to end next
	gone   what = "gone"   // Who has ended [Text: what is wrong with that, or ""]
	keys   what = "keys"   // what was left on the server [Text: keys, N: ns until that]
	back   what = "back"   // the server's wall clock goes back [N: ns]
)

// An event is one line of a journal. Times are CLOCK_MONOTONIC in nanoseconds.
type event struct {
	At    int64  `json:"at"`
	What  what   `json:"what"`
	Who   string `json:"who,omitempty"` // the process; in its own journal the file's name says it
	Call  int64  `json:"call,omitempty"`
	Name  string `json:"name,omitempty"` // of the lock
	Fence uint64 `json:"fence,omitempty"`
	Owner string `json:"owner,omitempty"`
	Until int64  `json:"until,omitempty"`
	Value int64  `json:"value,omitempty"`
	N     int64  `json:"n,omitempty"`
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`
	Kind  string `json:"kind,omitempty"` // of a fault; of an answer: what the part says that waits again

	// Of requests.
	Request int64  `json:"request,omitempty"` // of each lock in it
	Next    string `json:"next,omitempty"`    // the owner for whom a release waits again
	Holder  string `json:"holder,omitempty"`  // the owner who has it, with Fence; Value is the server's time
}

// A journal is a file of events. Each is written at once, so that it is there even
// if the process is killed the moment after.
type journal struct {
	mu   sync.Mutex
	file *os.File
}

func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{file: f}, nil
}

// write adds an event, at the present time unless it has one. A worker that can't
// write its history is worth nothing, so that ends it.
func (j *journal) write(e event) {
	if e.At == 0 {
		e.At = monotonic()
	}
	line, err := json.Marshal(e)
	if err == nil {
		j.mu.Lock()
		_, err = j.file.Write(append(line, '\n'))
		j.mu.Unlock()
	}
	if err != nil {
		panic(fmt.Sprintf("soak: the journal can't be written: %v", err))
	}
}

func (j *journal) close() error { return j.file.Close() }

// readJournal returns the events of a file. The last line of a process that was killed
// may be half a line.
func readJournal(path string) ([]event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	who := strings.TrimSuffix(filepath.Base(path), journalSuffix)
	var events []event
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil // also after half a line
		}
		if err != nil {
			return nil, err
		}
		var e event
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			return nil, fmt.Errorf("%s: %w: %q", path, err, line)
		}
		if e.Who == "" {
			e.Who = who
		}
		events = append(events, e)
	}
}

const journalSuffix = ".jsonl"

// words says an event to people. Times count from zero.
func (e event) words(zero int64) string {
	at := func(t int64) string { return fmt.Sprintf("%.4f s", time.Duration(t-zero).Seconds()) }
	who := e.Who
	if e.Call > 0 {
		who = fmt.Sprintf("%s call %d", who, e.Call)
	}
	text := map[what]string{
		starts:   "starts, on " + e.Text,
		asks:     fmt.Sprintf("asks for %s (%s)", e.Name, e.Text),
		failed:   fmt.Sprintf("does not get %s: %s", e.Name, e.Text),
		stale:    fmt.Sprintf("gets %s, fence %d, but that is over already", e.Name, e.Fence),
		held:     fmt.Sprintf("has %s, fence %d, until %s", e.Name, e.Fence, at(e.Until)),
		renewed:  fmt.Sprintf("keeps %s until %s", e.Name, at(e.Until)),
		wrote:    fmt.Sprintf("has made the counter of %s %d", e.Name, e.Value),
		fenced:   fmt.Sprintf("is refused to write to %s", e.Name),
		dbBusy:   "finds the database busy",
		ended:    fmt.Sprintf("has lost %s: %s (%s)", e.Name, e.Text, e.Error),
		free:     "gives back " + e.Name,
		released: strings.TrimSpace(fmt.Sprintf("has given back %s %s", e.Name, e.Text)),
		step:     "does a step under " + e.Name,
		asked:    strings.TrimSpace(fmt.Sprintf("request %d: %s %s for %s %s", e.Request, e.Text, e.Name, e.Owner, e.Next)),
		answered: strings.TrimSpace(fmt.Sprintf("request %d: %s, fence %d %s", e.Request, e.Text, e.Fence, e.Holder)),
		heard:    fmt.Sprintf("hears that %s was handed to %s, fence %d", e.Name, e.Owner, e.Fence),
		closing:  "closes its client",
		closed:   fmt.Sprintf("has closed its client, after %s", time.Duration(e.N)),
		stall:    fmt.Sprintf("gets no %s for %s", e.Text, time.Duration(e.N)),
		odd:      e.Text,
		leak:     "leaves goroutines:\n" + e.Text,
		bye:      "ends",
		fault:    strings.TrimSpace(fmt.Sprintf("FAULT until %s: %s %s", at(e.Until), e.Kind, e.Text)),
		quiet:    "quiet until " + at(e.Until),
		killed:   "is killed",
		told:     "is asked to end",
		gone:     strings.TrimSpace("is gone " + e.Text),
		keys:     "keys left: " + e.Text,
		back:     fmt.Sprintf("sets the server's wall clock back by %s", time.Duration(e.N)),
	}[e.What]
	return fmt.Sprintf("%12s  %-20s %s", at(e.At), who, text)
}
