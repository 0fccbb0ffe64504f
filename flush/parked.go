package flush

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Parked says which key is not flushed, and why.
type Parked struct {
	Key     string `json:"key"`
	Table   string `json:"table,omitempty"` // "": no mapping fits the key
	Column  string `json:"column,omitempty"`
	Reason  string `json:"reason"`
	Code    string `json:"code,omitempty"`  // of the database, if it was the one to refuse
	Entry   string `json:"entry,omitempty"` // ID of the stream's entry that is parked; the others went on
	Version string `json:"version"`         // of the change that could not be written

	Attempts int       `json:"attempts"` // how many times it was parked
	First    time.Time `json:"first"`    // when it was parked first, by the clock of Redis
	Last     time.Time `json:"last"`

	raw string // as it is on Redis
}

// A parked is a mark that is to be parked.
type parked struct {
	mark
	route *route // nil: no mapping fits
	Parked
}

// show says which key, and why.
func (p *parked) show() string {
	column := ""
	if p.Column != "" {
		column = " (column " + p.Column + ")"
	}
	return fmt.Sprintf("%q%s: %s", p.field(), column, p.Reason)
}

// field is the name under which it is kept.
func (p *parked) field() string { return parkedName(p.mark.key, p.Entry) }

// parkedName is the name of a parked key, or of the entry of a stream with this ID. An ID
// has no space, so that the two can be told apart from the end.
func parkedName(key, id string) string {
	if id == "" {
		return key
	}
	return key + " entry " + id
}

// json is what is kept on Redis, beside the times and the name.
func (p *parked) json() string {
	kept := struct {
		Table   string `json:"table,omitempty"`
		Column  string `json:"column,omitempty"`
		Reason  string `json:"reason"`
		Code    string `json:"code,omitempty"`
		Entry   string `json:"entry,omitempty"`
		Version string `json:"version"`
	}{p.Table, p.Column, p.Reason, p.Code, p.Entry, p.mark.version}
	text, err := json.Marshal(kept)
	if err != nil {
		return `{"reason":"unknown"}` // strings can't fail
	}
	return string(text)
}

// parseParked reads what ack.lua has written: "times us-first us-last JSON".
func parseParked(name, raw string) Parked {
	p := Parked{Key: name, raw: raw}
	parts := strings.SplitN(raw, " ", 4)
	text := raw
	if len(parts) == 4 && !strings.HasPrefix(raw, "{") {
		p.Attempts = int(number(parts[0]))
		p.First = time.UnixMicro(number(parts[1])).UTC()
		p.Last = time.UnixMicro(number(parts[2])).UTC()
		text = parts[3]
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		p.Reason = text // somebody else has written it
	}
	p.Key = name
	if p.Entry != "" {
		p.Key = strings.TrimSuffix(name, " entry "+p.Entry)
	}
	return p
}

// Name returns what RetryParked and DropParked know it by: the key, and for an entry
// of a stream its ID besides.
func (p *Parked) Name() string { return parkedName(p.Key, p.Entry) }

// EachParked calls f for every parked key, in no order, until it returns false. A key
// that is parked meanwhile may be missed, and one may come twice.
func (e *Engine) EachParked(ctx context.Context, f func(Parked) bool) error {
	return e.eachField(ctx, e.keys.Parked, func(name, raw string) bool { return f(parseParked(name, raw)) })
}

// GetParked returns the parked keys of these names; those that are not parked are left
// out.
func (e *Engine) GetParked(ctx context.Context, names ...string) ([]Parked, error) {
	var found []Parked
	for chunk := range slices.Chunk(names, chunkSize) {
		reply, err := e.eval(ctx, pickScript, []string{e.keys.Parked}, append([]string{"get"}, chunk...)...)
		if err != nil {
			return nil, err
		}
		values, ok := reply.([]any)
		if !ok || len(values) != len(chunk) {
			return nil, unexpected(reply)
		}
		for i, v := range values {
			if raw, ok := v.(string); ok {
				found = append(found, parseParked(chunk[i], raw))
			}
		}
	}
	return found, nil
}

// RetryParked marks parked keys again, as what they were marked when they were parked,
// and returns how many were. Each stays parked until it is flushed. A key that is marked
// already is tried without this, and one that is not parked any more is left alone.
func (e *Engine) RetryParked(ctx context.Context, list ...Parked) (int, error) {
	marked := 0
	for chunk := range slices.Chunk(list, chunkSize) {
		chunk, err := e.stillParked(ctx, chunk)
		if err != nil {
			return marked, err
		}
		names := make([]string, len(chunk))
		ops := make([]string, len(chunk))
		var cursors []string
		for i, p := range chunk {
			names[i], ops[i] = p.Key, "u"
			if (mark{version: p.Version}).isDelete() {
				ops[i] = "d"
			}
			if p.Entry != "" {
				cursors = append(cursors, p.Key, justBefore(p.Entry))
			}
		}
		// The entries after it are written once more, which changes nothing.
		if cursors != nil {
			if _, err := e.eval(ctx, rewindScript, []string{e.keys.Cursors}, cursors...); err != nil {
				return marked, err
			}
		}
		n, err := e.touch(ctx, "", names, ops)
		marked += n
		if err != nil {
			return marked, err
		}
	}
	return marked, nil
}

// stillParked returns what is parked now of a list, as it is now.
func (e *Engine) stillParked(ctx context.Context, list []Parked) ([]Parked, error) {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name()
	}
	return e.GetParked(ctx, names...)
}

// DropParked forgets parked keys, and returns how many. Their rows stay as they are; a
// later change of a key is flushed as any other. One that was parked again since it was
// read is kept.
func (e *Engine) DropParked(ctx context.Context, list ...Parked) (int, error) {
	dropped := 0
	for chunk := range slices.Chunk(list, chunkSize) {
		args := []string{"drop"}
		for _, p := range chunk {
			if p.raw == "" {
				return dropped, errors.New("flush: only what GetParked or EachParked returned can be dropped")
			}
			args = append(args, p.Name(), p.raw)
		}
		reply, err := e.eval(ctx, pickScript, []string{e.keys.Parked}, args...)
		if err != nil {
			return dropped, err
		}
		dropped += int(number(reply))
	}
	return dropped, nil
}

// chunkSize is how many keys go into one request.
const chunkSize = 500

// eachField calls f for every field of a hash, until it returns false.
func (e *Engine) eachField(ctx context.Context, hash string, f func(name, value string) bool) error {
	cursor := "0"
	for {
		reply, err := e.eval(ctx, fieldsScript, []string{hash}, cursor, formatInt(chunkSize))
		if err != nil {
			return err
		}
		v, ok := reply.([]any)
		if !ok || len(v) != 2 {
			return unexpected(reply)
		}
		list, _ := v[1].([]any)
		for i := 0; i+1 < len(list); i += 2 {
			name, _ := list[i].(string)
			value, _ := list[i+1].(string)
			if !f(name, value) {
				return nil
			}
		}
		if cursor = fmt.Sprint(v[0]); cursor == "0" {
			return nil
		}
	}
}

// touchAll marks keys again, all for the same reason; see touch.lua.
func (e *Engine) touchAll(ctx context.Context, table string, names []string, op string) (int, error) {
	return e.touch(ctx, table, names, slices.Repeat([]string{op}, len(names)))
}

// touch marks keys again. The table is that of their digests; "" is none.
func (e *Engine) touch(ctx context.Context, table string, names, ops []string) (int, error) {
	if len(names) == 0 {
		return 0, nil
	}
	keys := append([]string{e.keys.Dirty, e.keys.Versions, e.keys.Clock, e.keys.Digests(table)}, names...)
	reply, err := e.eval(ctx, touchScript, keys, ops...)
	return int(number(reply)), err
}
