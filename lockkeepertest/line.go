package lockkeepertest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The waiting line: lua/join.lua and lua/handoff.lua in Go.

var holderOf = regexp.MustCompile(`^lk1:([^:]+):`)

// join is lua/join.lua: how many are before the owner, or -1, and how long the line
// is if the place is new.
func (m *Memory) join(keys []string, owner, place, label, since string) (before, length int64, err error) {
	part := strings.SplitN(place, ":", 5)
	lease, limit, wake := millis(part[0]), part[2], part[4]
	now := m.now().UnixMicro()
	score, _ := strconv.ParseInt(since, 10, 64)
	if since == "" || score > now {
		score = now
	}
	line, places := m.get(keys[2]), m.get(keys[3])
	if line != nil && line.scores == nil {
		return 0, 0, errWrongType
	}
	if line == nil {
		line = &entry{scores: make(map[string]int64)}
		m.keys[keys[2]] = line
	}
	line.expires = m.now().Add(time.Minute)
	if _, there := line.scores[owner]; !there {
		line.scores[owner] = score
		most, _ := strconv.ParseInt(limit, 10, 64)
		if most != 0 {
			length = int64(len(line.scores))
		}
		if length > most {
			delete(line.scores, owner)
			m.leaveLine(keys) // the key is gone with the last
			return -1, length - 1, nil
		}
	}
	for i, member := range m.members(keys[2]) {
		if member == owner {
			before = int64(i)
		}
	}
	if places != nil && places.fields == nil {
		return 0, 0, errWrongType // as on Redis: the place in the line stays
	}
	if places == nil {
		places = &entry{fields: make(map[string]string)}
		m.keys[keys[3]] = places
	}
	if part[3] == "0" {
		wake = ""
	}
	deadline := now + lease.Microseconds()*min(1+before/64, 10)
	places.fields[owner] = fmt.Sprintf("%d:%s:%d:%s%s", deadline, part[1], len(wake), wake, label)
	places.expires = line.expires
	return before, length, nil
}

// channelOf returns the channel of an owner's client.
func channelOf(wake, owner string) string {
	id, _, _ := strings.Cut(owner, ".")
	return wake + id
}

// give is that of lua/handoff.lua.
func (m *Memory) give(keys []string, owner, label string, ttl time.Duration, fence int64) (first, last string) {
	fence = max(m.now().UnixMicro(), fence)
	first, last = strconv.FormatInt(fence, 10), strconv.FormatInt(fence+1<<16-1, 10)
	m.set(keys[1], last, week)
	m.set(keys[0], "lk1:"+owner+":"+first+":"+m.micros()+":"+label, ttl)
	return first, last
}

// handOff is that of lua/handoff.lua; to is empty if nobody lives.
func (m *Memory) handOff(keys []string, used int64, me, label string, ttl time.Duration) (to, first, last string, others int64) {
	members := m.members(keys[2])
	var passed []string
	for i, owner := range members[:min(len(members), 1024)] {
		passed = append(passed, owner)
		others = 0
		if len(members) > i+1 {
			others = 1
		}
		if owner == me {
			first, last = m.give(keys, owner, label, ttl, used+1)
			to = owner
			break
		}
		place := m.place(keys[3], owner)
		if place == nil || place.deadline < m.now().UnixMicro() || place.wake != "" && !m.hears(channelOf(place.wake, owner)) {
			continue
		}
		first, last = m.give(keys, owner, place.label, place.grant, used+1)
		if place.wake != "" {
			m.publish(channelOf(place.wake, owner), fmt.Sprintf("g:lk1:%s:%s:%s:%d:%s", owner, first, m.micros(), others, keys[0]))
		}
		to = owner
		break
	}
	m.leaveLine(keys, passed...)
	return to, first, last, others
}

// A waiting is what is kept of a place.
type waiting struct {
	deadline    int64
	grant       time.Duration
	wake, label string
}

// place reads a place; nil if it is none.
func (m *Memory) place(key, owner string) *waiting {
	e := m.get(key)
	if e == nil || e.fields == nil {
		return nil
	}
	part := strings.SplitN(e.fields[owner], ":", 4)
	if len(part) != 4 {
		return nil
	}
	n, _ := strconv.Atoi(part[2])
	w := &waiting{grant: millis(part[1]), wake: part[3][:n], label: part[3][n:]}
	w.deadline, _ = strconv.ParseInt(part[0], 10, 64)
	return w
}
