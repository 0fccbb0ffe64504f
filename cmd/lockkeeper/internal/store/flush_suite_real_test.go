package store_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	osexec "os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// filedPackages is of how many packages the files are taken, too.
const filedPackages = 150

// A debian is a package of this machine's list.
type debian struct {
	name, version, arch, section, summary, description, depends string
	size                                                        int64
	essential                                                   bool
	files                                                       []string
}

// debianPackages reads the list of packages, as other people have written it.
func debianPackages(t *testing.T) []*debian {
	t.Helper()
	if _, err := osexec.LookPath("dpkg-query"); err != nil {
		t.Skip("optional: no dpkg-query, which lists the packages of Debian")
	}
	const end = "\x1e"
	out, err := osexec.Command("dpkg-query", "-W", "-f", "${binary:Package}\x1f${Version}\x1f${Architecture}\x1f${Section}\x1f${Installed-Size}\x1f"+
		"${Essential}\x1f${Depends}\x1f${binary:Summary}\x1f${Description}"+end).Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []*debian
	for record := range strings.SplitSeq(strings.TrimSuffix(string(out), end), end) {
		f := strings.Split(record, "\x1f")
		if len(f) != 9 {
			t.Fatalf("%d fields: %q", len(f), record)
		}
		kib, _ := strconv.ParseInt(f[4], 10, 64) // a few have none
		list = append(list, &debian{name: f[0], version: f[1], arch: f[2], section: f[3], size: kib * 1024,
			essential: f[5] == "yes", depends: f[6], summary: f[7], description: f[8]})
	}
	for _, p := range list[:min(filedPackages, len(list))] {
		out, err := osexec.Command("dpkg", "-L", p.name).Output()
		if err != nil {
			continue // it has gone meanwhile
		}
		scanner := bufio.NewScanner(bytes.NewReader(out))
		for scanner.Scan() && len(p.files) < 1000 {
			if line := scanner.Text(); len(line) > 0 && len([]rune(line)) <= 255 && !slices.Contains(p.files, line) {
				p.files = append(p.files, line)
			}
		}
	}
	if len(list) < 20 {
		t.Skip("optional: there are only ", len(list), " packages of Debian")
	}
	return list
}

func debianMappings() []flush.Mapping {
	name := func() []flush.Column { return []flush.Column{{Name: "name", Type: flush.Text}} }
	return []flush.Mapping{
		{Keys: "pkg:{name*}", Table: "package", Create: true, Key: name(), Columns: []flush.Column{
			{Name: "version", Type: flush.Text, Required: true}, {Name: "arch", Type: flush.Text}, {Name: "section", Type: flush.Text, Empty: flush.EmptyNull},
			{Name: "bytes", Type: flush.Uint64}, {Name: "essential", Type: flush.Bool}, {Name: "depends", Type: flush.Text},
			{Name: "summary", Type: flush.Text}, {Name: "description", Type: flush.Text}, {Name: "raw", Field: "description", Type: flush.Bytes},
		}},
		{Keys: "files/{name*}", Table: "file", Create: true, Source: flush.Sets, Key: name(), Columns: []flush.Column{{Name: "path", Field: "member", Type: flush.Text}}},
		{Keys: "needs/{name*}", Table: "needs", Create: true, Source: flush.SortedSets, Key: name(),
			Columns: []flush.Column{{Name: "what", Field: "member", Type: flush.Text}, {Name: "place", Field: "score", Type: flush.Float64}}},
		{Keys: "history/{shelf}", Table: "history", Create: true, Source: flush.Streams, Key: []flush.Column{{Name: "shelf", Type: flush.Text}},
			Columns: []flush.Column{{Name: "entry", Field: "id", Type: flush.Text}, {Name: "name", Type: flush.Text}, {Name: "version", Type: flush.Text}}},
	}
}

// TestRealInput takes this machine's packages and their files, by several writers, and
// then updates and deletes by all of them at a time.
func TestRealInput(t *testing.T) {
	list := debianPackages(t)
	onDatabases(t, func(t *testing.T, w *world) {
		w.runWorker("a", w.newSink(w.place.open(t)), func(cfg *flush.Config) { cfg.Batch = 200 })
		const writers = 4
		var all sync.WaitGroup
		for writer := range writers {
			all.Go(func() {
				d := &debianWriter{world: w, ctx: t.Context(), writer: writer}
				for i := writer; i < len(list); i += writers {
					d.write(list[i])
				}
				for i := range list { // those of the others, too, at the same time
					d.change(list[(i*37+writer)%len(list)], i)
				}
			})
		}
		all.Wait()
		redistest.Until(t, "everything is flushed", func() bool {
			st, err := w.engine(w.conn, nil).Status(t.Context())
			return err == nil && st.Dirty == 0
		})
		w.status(0, 0)
		w.compareDebian(list)
	}, debianMappings()...)
}

type debianWriter struct {
	*world
	ctx    context.Context
	writer int
}

// try is Do, in a goroutine of its own.
func (d *debianWriter) try(key, command string, args ...string) {
	if _, err := d.Do(d.ctx, key, command, args...); err != nil {
		d.t.Error(err)
	}
}

func (d *debianWriter) write(p *debian) {
	d.try("pkg:"+p.name, "HSET", "version", p.version, "arch", p.arch, "section", p.section, "bytes", strconv.FormatInt(p.size, 10),
		"essential", strconv.FormatBool(p.essential), "depends", p.depends, "summary", p.summary, "description", p.description)
	if len(p.files) > 0 {
		d.try("files/"+p.name, "SADD", p.files...)
	}
	for i, need := range strings.Split(p.depends, ", ") {
		if need != "" && len([]rune(need)) <= 255 {
			d.try("needs/"+p.name, "ZADD", strconv.Itoa(i), need)
		}
	}
	d.try("history/"+p.name[:1], "XADD", "*", "name", p.name, "version", p.version)
}

// change updates or deletes a package; what becomes of it when several do is up to Redis.
func (d *debianWriter) change(p *debian, i int) {
	switch (i + d.writer) % 9 {
	case 0:
		d.try("pkg:"+p.name, "DEL")
	case 1, 2:
		d.try("pkg:"+p.name, "HSET", "version", p.version+"+"+strconv.Itoa(d.writer))
	case 3:
		d.try("pkg:"+p.name, "HDEL", "summary")
	case 4:
		if len(p.files) > 0 {
			d.try("files/"+p.name, "SREM", p.files[:len(p.files)/2]...)
		}
	case 5:
		d.try("needs/"+p.name, "ZINCRBY", "0.1", "libc6 (>= 2.36)")
	case 6:
		d.try("needs/"+p.name, "DEL")
	case 7:
		d.try("files/"+p.name, "SADD", "/new/"+strconv.Itoa(d.writer))
	case 8:
		d.try("history/"+p.name[:1], "XADD", "*", "name", p.name, "version", strconv.Itoa(i))
	}
}

// compareDebian compares all fields of all rows with what is on Redis now.
func (w *world) compareDebian(list []*debian) {
	w.t.Helper()
	var packages, files, needs, history []string
	ctx := w.t.Context()
	field := func(h map[string]string, name string) string {
		if v, there := h[name]; there && (v != "" || name != "section") {
			return v
		}
		return "-"
	}
	shelves := make(map[string]bool)
	for _, p := range list {
		shelves[p.name[:1]] = true
		h, err1 := w.rdb.HGetAll(ctx, "pkg:"+p.name).Result()
		members, err2 := w.rdb.SMembers(ctx, "files/"+p.name).Result()
		scores, err3 := w.rdb.ZRangeWithScores(ctx, "needs/"+p.name, 0, -1).Result()
		if err1 != nil || err2 != nil || err3 != nil {
			w.t.Fatal(err1, err2, err3)
		}
		if len(h) > 0 && h["version"] != "" {
			essential := map[string]string{"true": "1", "false": "0", "": "-"}[h["essential"]]
			raw := "-"
			if d, there := h["description"]; there {
				raw = fmt.Sprintf("x%x", d)
			}
			packages = append(packages, strings.Join([]string{p.name, h["version"], field(h, "arch"), field(h, "section"), field(h, "bytes"),
				essential, field(h, "depends"), field(h, "summary"), field(h, "description"), raw}, "|"))
		}
		for _, m := range members {
			files = append(files, p.name+"|"+m)
		}
		for _, z := range scores {
			needs = append(needs, fmt.Sprint(p.name, "|", z.Member, "|", strconv.FormatFloat(z.Score, 'g', -1, 64)))
		}
	}
	for shelf := range shelves {
		entries, err := w.rdb.XRange(ctx, "history/"+shelf, "-", "+").Result()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range entries {
			history = append(history, fmt.Sprint(shelf, "|", e.ID, "|", e.Values["name"], "|", e.Values["version"]))
		}
	}
	w.t.Logf("%d packages, %d files, %d needs, %d entries", len(packages), len(files), len(needs), len(history))
	w.sameLines("SELECT name, version, arch, section, bytes, essential, depends, summary, description, raw FROM package", packages)
	w.sameLines("SELECT name, path FROM file", files)
	w.sameLines("SELECT name, what, place FROM needs", needs)
	w.sameLines("SELECT shelf, entry, name, version FROM history", history)
}

// sameLines compares rows, with a | between the columns, in any order.
func (w *world) sameLines(query string, want []string) {
	w.t.Helper()
	got := lines(w.t, w.db, query, "|")
	slices.Sort(got)
	slices.Sort(want)
	if len(want) == 0 {
		w.t.Errorf("%s: nothing is left to compare", query)
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			w.t.Errorf("%s: %d rows, want %d; the first that differs, %d:\ngot  %.500q\nwant %.500q", query, len(got), len(want), i,
				got[min(i, len(got)):min(i+1, len(got))], want[min(i, len(want)):min(i+1, len(want))])
			return
		}
	}
}
