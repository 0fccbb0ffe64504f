package flush

import "context"

// A page is what one look at the marks has found.
type page struct {
	read    string  // server time in microseconds
	intake  int64   // keys that wait for a version
	parked  int64   // keys that are parked
	aside   []int64 // how many marks are put aside, in the order of Engine.aside
	control control
	marks   []mark
}

// aside returns the sorted sets of marks that are put aside: those whose rows refer to
// rows that are not there, and those of each mapping that is or was paused.
func (e *Engine) aside() []string {
	sets := []string{e.keys.Waiting}
	for _, r := range e.routes {
		sets = append(sets, e.keys.Held(r.Table))
	}
	return sets
}

// page reads the marks of the keys that have been dirty for longest, but for so many at
// the head.
func (e *Engine) page(ctx context.Context, skip int) (*page, error) {
	return e.pageOf(ctx, e.keys.Dirty, skip)
}

// pageOf is page for any sorted set of marks.
func (e *Engine) pageOf(ctx context.Context, marks string, skip int) (*page, error) {
	k := e.keys
	keys := append([]string{marks, k.Versions, k.Changed, k.Deleted, k.Parked, k.Control}, e.aside()...)
	reply, err := e.eval(ctx, pageScript, keys, formatInt(int64(skip)), formatInt(int64(e.cfg.Batch)))
	if err != nil {
		return nil, err
	}
	v, ok := reply.([]any)
	if !ok || len(v) != 7 {
		return nil, unexpected(reply)
	}
	aside, _ := v[3].([]any)
	names, _ := v[5].([]any)
	versions, _ := v[6].([]any)
	if len(names) != len(versions) || len(aside) != 1+len(e.routes) {
		return nil, unexpected(reply)
	}
	p := &page{intake: number(v[1]), parked: number(v[2]), control: parseControl(v[4])}
	p.read, _ = v[0].(string)
	for _, n := range aside {
		p.aside = append(p.aside, number(n))
	}
	for i := range names {
		key, _ := names[i].(string)
		version, _ := versions[i].(string)
		p.marks = append(p.marks, mark{key, version})
	}
	return p, nil
}

// mostIntake is how many keys one request gives versions to.
const mostIntake = 1000

// pageAll reads a page after it has given versions to keys that an application has put
// into a set in a transaction of its own.
func (e *Engine) pageAll(ctx context.Context, skip int) (*page, error) {
	p, err := e.page(ctx, skip)
	if err != nil || p.intake == 0 {
		return p, err
	}
	k := e.keys
	keys := []string{k.Dirty, k.Versions, k.Clock, k.Changed, k.Deleted}
	if _, err := e.eval(ctx, intakeScript, keys, formatInt(mostIntake)); err != nil {
		return nil, err
	}
	return e.page(ctx, skip)
}
