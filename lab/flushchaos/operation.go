package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// An operation is one write.
type operation struct {
	key     string
	command string
	args    []string

	// What the ledger keeps of a hash, a string or a JSON text.
	n       int64 // the number that the value has afterwards
	deletes bool
	silent  bool // it changes nothing that the ledger keeps

	bad bool // the value can't be a row
}

// cities and members have what an encoding may break.
var (
	cities  = []string{"Ulm", "Zürich", "東京", "O'Hare", `back\slash`, "tab\there", "", "😀"}
	members = []string{"a", "B", "b", "ß", "", "trailing ", "trailing", "'", `"`, `\`, "é", "日本", "%", "x,y", "{z}", "NULL"}
)

// A source makes the operations of one writer. Its keys are its own.
type source struct {
	writer int
	rng    *rand.Rand
	plain  bool // hashes, strings and JSON only
	next   int64
	steps  int
}

// hot is how many keys of each kind are written all the time. The others are written
// some times, while the window is at them, and then left alone.
const hot, window, writesPerStep = 5, 60, 30

// streamsFor of streamsEvery writes some are to streams, so that there are batches
// without these.
const streamsFor, streamsEvery = 800, 2400

// id chooses the number of a key.
func (s *source) id() int64 {
	i := s.rng.IntN(hot)
	if s.rng.Float64() > 0.05 {
		i = hot + s.steps/writesPerStep + s.rng.IntN(window)
	}
	return int64(s.writer)*1_000_000 + int64(i)
}

// operation makes the next one.
func (s *source) operation() operation {
	s.steps++
	s.next++
	id := strconv.FormatInt(s.id(), 10)
	p := s.rng.Float64()
	if s.plain {
		p *= 0.6
	}
	switch {
	case p < 0.35:
		return s.hash("h:" + id)
	case p < 0.48:
		return s.string("s:" + id)
	case p < 0.6:
		return s.json("j:" + id)
	case p < 0.72:
		return s.set("e:" + s.owner() + ":" + id)
	case p < 0.82:
		return s.list("l:" + s.owner() + ":" + id)
	case p < 0.87, s.steps%streamsEvery > streamsFor:
		return s.zset("z:" + id)
	}
	return s.stream("x:" + id)
}

func (s *source) owner() string { return fmt.Sprint("w", s.writer) }

func (s *source) text() string { return cities[s.rng.IntN(len(cities))] }

func (s *source) hash(key string) operation {
	switch p := s.rng.Float64(); {
	case p < 0.1:
		return operation{key: key, command: "DEL", deletes: true}
	case p < 0.15:
		return operation{key: key, command: "HDEL", args: []string{"note"}, silent: true}
	case p < 0.25:
		return operation{key: key, command: "HSET", n: s.next, args: []string{"n", fmt.Sprint(s.next), "points", fmt.Sprint(s.rng.IntN(1000))}}
	}
	points, bad := fmt.Sprint(s.rng.IntN(1e6)), false
	switch p := s.rng.Float64(); {
	case p < 0.001:
		points, bad = "many", true
	case p < 0.002:
		points, bad = "-1", true
	}
	return operation{key: key, command: "HSET", n: s.next, bad: bad, args: s.fields(points)}
}

// fields are those of a hash.
func (s *source) fields(points string) []string {
	return []string{
		"n", fmt.Sprint(s.next), "points", points, "name", s.text(),
		"price", fmt.Sprintf("%d.%02d", s.rng.IntN(1e6)-5e5, s.rng.IntN(100)), "active", fmt.Sprint(s.rng.IntN(2)),
		"seen", fmt.Sprint(1_700_000_000_000 + s.rng.Int64N(1e11)), "note", s.text() + s.text(),
	}
}

func (s *source) string(key string) operation {
	switch p := s.rng.Float64(); {
	case p < 0.05:
		return operation{key: key, command: "UNLINK", deletes: true}
	case p < 0.1:
		return operation{key: key, command: "GETDEL", deletes: true}
	}
	return operation{key: key, command: "SET", n: s.next, args: []string{fmt.Sprintf("%d %s", s.next, s.text())}}
}

func (s *source) json(key string) operation {
	switch p := s.rng.Float64(); {
	case p < 0.1:
		return operation{key: key, command: "DEL", deletes: true}
	case p < 0.102:
		return operation{key: key, command: "SET", n: s.next, bad: true, args: []string{fmt.Sprintf(`{"n": %d.5}`, s.next)}}
	}
	city := strings.NewReplacer(`\`, `\\`, "\t", `\t`).Replace(s.text())
	return operation{key: key, command: "SET", n: s.next,
		args: []string{fmt.Sprintf(`{"n": %d, "address": {"city": "%s"}, "tags": ["a", 1.50]}`, s.next, city)}}
}

func (s *source) member() string { return members[s.rng.IntN(len(members))] }

func (s *source) set(key string) operation {
	switch p := s.rng.Float64(); {
	case p < 0.05:
		return operation{key: key, command: "DEL"}
	case p < 0.5:
		return operation{key: key, command: "SREM", args: []string{s.member(), s.member(), s.member()}}
	}
	return operation{key: key, command: "SADD", args: []string{s.member(), s.member()}}
}

func (s *source) list(key string) operation {
	switch p := s.rng.Float64(); {
	case p < 0.05:
		return operation{key: key, command: "UNLINK"}
	case p < 0.3:
		return operation{key: key, command: "LPOP"}
	case p < 0.4:
		return operation{key: key, command: "LTRIM", args: []string{"-4", "-1"}}
	case p < 0.6:
		return operation{key: key, command: "LPUSH", args: []string{s.member()}}
	}
	return operation{key: key, command: "RPUSH", args: []string{s.member(), fmt.Sprint(s.next)}}
}

func (s *source) zset(key string) operation {
	switch p := s.rng.Float64(); {
	case p < 0.05:
		return operation{key: key, command: "DEL"}
	case p < 0.3:
		return operation{key: key, command: "ZREM", args: []string{s.member(), s.member()}}
	case p < 0.5:
		return operation{key: key, command: "ZINCRBY", args: []string{"0.5", s.member()}}
	case p < 0.55:
		return operation{key: key, command: "ZPOPMIN"}
	}
	return operation{key: key, command: "ZADD", args: []string{fmt.Sprint(s.rng.IntN(4000)), s.member()}}
}

func (s *source) stream(key string) operation {
	if s.rng.Float64() < 0.02 {
		return operation{key: key, command: "DEL", deletes: true}
	}
	return operation{key: key, command: "XADD", args: []string{"*", "n", fmt.Sprint(s.next), "text", s.text()}}
}

// firstPlant is the number of the first key that is planted.
const firstPlant = 900_000

// plants returns what can't be written and is to stay so, as operations that can be made
// again, each of a key of its own.
func (s *source) plants(round int) (list []operation) {
	key := func(prefix string) string {
		return fmt.Sprint(prefix, s.writer*1_000_000+firstPlant+100*round+len(list))
	}
	plant := func(key, command string, args ...string) {
		list = append(list, operation{key: key, command: command, args: args, bad: true})
	}
	for range 3 {
		plant(key("h:"), "HSET", "points", "many", "n", "1")
		plant(key("h:"), "HSET", "points", "-7", "n", "1") // the database refuses it
	}
	plant(key("h:"), "HSET", "name", "nul\x00", "n", "1")
	plant(key("h:"), "HSET", "price", "1.005", "n", "1")
	plant(key("h:")+"x", "HSET", "n", "1") // a key that is no int64
	plant(key("j:"), "SET", `{"n": "one"}`)
	plant(key("j:"), "SET", `{"n": 1`)
	if s.plain {
		return list
	}
	plant(key("s:"), "RPUSH", "a list") // and no string
	many := make([]string, setLimit+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	plant(key("e:"+s.owner()+":"), "SADD", many...)
	plant(key("z:"), "ZADD", "inf", "a")
	plant(key("nobody:"), "SET", "no mapping")
	return list
}
