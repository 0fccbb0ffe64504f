package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// A hunt plants mutants in copies of a tree, in several lanes beside each other.
type hunt struct {
	root    string
	lanes   int
	mutants []mutant
	done    func(result) // is told of each as it comes, one at a time

	trees []tree // one a lane
	mu    sync.Mutex
	unfit map[killer]string // why they give no verdict: what is wrong where nothing is planted
}

// run hunts all mutants. It returns an error if it could not begin, or was stopped.
func (h *hunt) run(ctx context.Context) error {
	files, err := listFiles(ctx, h.root)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "lockkeeper-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	for lane := range h.lanes {
		t, err := copyTree(h.root, files, filepath.Join(temp, strconv.Itoa(lane)))
		if err != nil {
			return err
		}
		h.trees = append(h.trees, t)
	}
	if err := fit(h.trees[0], h.mutants); err != nil {
		return err
	}
	h.rehearse(ctx)
	h.each(ctx, len(h.mutants), func(t tree, i int) {
		r := h.hunt(ctx, t, h.mutants[i])
		if ctx.Err() == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.done(r)
		}
	})
	return ctx.Err()
}

// fit says which mutants can't be planted, of all at once.
func fit(t tree, mutants []mutant) (err error) {
	for _, m := range mutants {
		wrong := m.check()
		if wrong == nil {
			_, _, wrong = t.texts(m)
		}
		err = errors.Join(err, wrong)
	}
	return err
}

// each does n things, as many at a time as there are trees, each in a tree of its own.
func (h *hunt) each(ctx context.Context, n int, do func(t tree, i int)) {
	var next atomic.Int64
	var lanes sync.WaitGroup
	for _, t := range h.trees {
		lanes.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				do(t, int(i))
			}
		})
	}
	lanes.Wait()
}

// rehearse runs all killers where nothing is planted: one that fails there, or does not
// run, can't be believed later.
func (h *hunt) rehearse(ctx context.Context) {
	h.unfit = make(map[killer]string)
	bySetting := make(map[setting][]killer)
	var settings []setting
	for _, m := range h.mutants {
		for _, k := range m.killers {
			if bySetting[k.setting] == nil {
				settings = append(settings, k.setting)
			}
			bySetting[k.setting] = append(bySetting[k.setting], k)
		}
	}
	h.each(ctx, len(settings), func(t tree, i int) {
		killers := bySetting[settings[i]]
		var tests []string
		for _, k := range killers {
			if !slices.Contains(tests, k.test) {
				tests = append(tests, k.test)
			}
		}
		r := t.goTest(ctx, settings[i], "", tests...)
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, k := range killers {
			if wrong := r.unfit(k); wrong != "" {
				h.unfit[k] = wrong
			}
		}
	})
}

// hunt plants a mutant in a tree, runs its killers, and takes it out again.
func (h *hunt) hunt(ctx context.Context, t tree, m mutant) result {
	r := result{mutant: m}
	restore, err := t.plant(m)
	if err != nil {
		r.wrong = err.Error()
		return r
	}
	for _, k := range m.killers {
		v := verdict{killer: k, wrong: h.unfit[k]}
		if v.wrong == "" {
			v = t.goTest(ctx, k.setting, k.oracle, k.test).verdict(k)
		}
		r.verdicts = append(r.verdicts, v)
	}
	if err := restore(); err != nil {
		r.wrong = err.Error()
	}
	return r
}
