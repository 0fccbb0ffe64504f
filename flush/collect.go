package flush

import "context"

// A pending is a changed key whose value has to be read.
type pending struct {
	mark
	key []any
}

// collect reads the values behind marks and makes rows of them.
func (e *Engine) collect(ctx context.Context, marks []mark) (*batch, error) {
	b := &batch{}
	reads := make([][]pending, len(e.routes))
	for _, m := range marks {
		i, parts := e.route(m.key)
		if i < 0 {
			b.parks = append(b.parks, park(m, "", "no mapping fits this key"))
			continue
		}
		r := &e.routes[i]
		key, bad := r.key(m, parts)
		switch {
		case bad != nil:
			b.parks = append(b.parks, *bad)
		case m.isDelete():
			b.rows = append(b.rows, r.remove(m, key))
		default:
			reads[i] = append(reads[i], pending{m, key})
		}
	}
	for i, keys := range reads {
		if err := e.read(ctx, &e.routes[i], keys, b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// route returns the first mapping that fits a key, with the key's parts, or -1.
func (e *Engine) route(key string) (int, []string) {
	for i := range e.routes {
		if parts, ok := e.routes[i].pattern.match(key); ok {
			return i, parts
		}
	}
	return -1, nil
}

// read reads the values of keys of one mapping and adds them to the batch.
func (e *Engine) read(ctx context.Context, r *route, keys []pending, b *batch) error {
	if len(keys) == 0 {
		return nil
	}
	names := make([]string, len(keys))
	for i := range keys {
		names[i] = keys[i].mark.key
	}
	reply, err := e.eval(ctx, readScript, names, r.fields...)
	if err != nil {
		return err
	}
	values, ok := reply.([]any)
	if !ok || len(values) != len(keys) {
		return unexpected(reply)
	}
	for i, p := range keys {
		r.take(p, values[i], b)
	}
	return nil
}

// take makes a row of one key's value, or parks or skips it.
func (r *route) take(p pending, value any, b *batch) {
	switch v := value.(type) {
	case []any:
		values, bad := r.values(p.mark, v)
		if bad != nil {
			b.parks = append(b.parks, *bad)
			return
		}
		b.rows = append(b.rows, Row{Mapping: r.Mapping, Key: p.key, Values: values, source: p.mark.key, mark: p.version})
	case string:
		b.parks = append(b.parks, park(p.mark, "", "the key is a %s, not a hash", v))
	default:
		r.missing(p, b)
	}
}

// missing deals with a key that was changed and is not there.
func (r *route) missing(p pending, b *batch) {
	switch r.Missing {
	case Delete:
		b.rows = append(b.rows, r.remove(p.mark, p.key))
	case Park:
		b.parks = append(b.parks, park(p.mark, "", "the key is gone, and nobody deleted it through a mark"))
	default:
		b.skips = append(b.skips, p.mark)
	}
}

func (r *route) remove(m mark, key []any) Row {
	return Row{Mapping: r.Mapping, Key: key, Delete: true, source: m.key, mark: m.version}
}
