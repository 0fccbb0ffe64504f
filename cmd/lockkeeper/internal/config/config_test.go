package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/flush"
)

var update = flag.Bool("update", false, "write the golden files")

func TestGood(t *testing.T) {
	data, err := os.ReadFile("testdata/good/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(data, "full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) *string { return &s }
	want := &File{
		Name: "full.yaml", Job: "players", Database: "sqlite:players.db",
		Interval: 250 * time.Millisecond, TTL: 90 * time.Second, Batch: 1000, MaxParked: 0.025,
		Mappings: []flush.Mapping{
			{
				Keys: "player:{id}", Source: flush.Hashes, Table: "player", Create: true, Missing: flush.Delete,
				Scan: time.Minute, ScanDeletes: 0.05,
				Key: []flush.Column{{Name: "id", Type: flush.Int64}},
				Columns: []flush.Column{
					{Name: "zeta", Type: flush.Text},
					{Name: "alpha", Type: flush.Int64, Field: "points", Required: true},
					{Name: "mid", Type: flush.JSON, Nulls: []string{"", "null", "0"}},
					{Name: "price", Type: flush.Decimal(12, 2), Round: true, Default: text("1.50"), Empty: flush.EmptyNull},
					{Name: "cost", Type: flush.Decimal(38, 0), Empty: flush.EmptyValue},
					{Name: "note", Type: flush.Text, Replace: true, Empty: flush.EmptyPark, Default: text("")},
					{Name: "tag", Type: flush.Text, Default: text("007")},
					{Name: "seen", Type: "timestamp(ms)"},
					{Name: "when", Type: flush.Timestamp, Field: "at"},
				},
			},
			{
				Keys: "visit:{day}:{user*}", Table: "visit",
				Key: []flush.Column{{Name: "user_id", Type: flush.Text, Field: "user"}, {Name: "day", Type: flush.Date}},
				Columns: []flush.Column{
					{Name: "n", Type: flush.Uint64}, {Name: "ratio", Type: flush.Float64},
					{Name: "ok", Type: flush.Bool}, {Name: "raw", Type: flush.Bytes},
				},
			},
			{
				Keys: "tags:{id}", Source: flush.Sets, Table: "tag", Limit: 500,
				Key: []flush.Column{{Name: "id", Type: flush.UUID}}, Columns: []flush.Column{{Name: "member", Type: flush.Text}},
			},
			{
				Keys: "log:{id}", Source: flush.Streams, Table: "log",
				Key: []flush.Column{{Name: "id", Type: flush.Text}}, Columns: []flush.Column{{Name: "entry", Type: flush.Text, Field: "id"}},
			},
			{
				Keys: "doc:{id}", Source: flush.Documents, Table: "doc",
				Key: []flush.Column{{Name: "id", Type: flush.Text}}, Columns: []flush.Column{{Name: "city", Type: flush.Text, Field: "address.city"}},
			},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDefaults(t *testing.T) {
	data, err := os.ReadFile("testdata/good/short.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// The ends of lines that other systems write, and a byte order mark.
	for _, text := range []string{string(data), strings.ReplaceAll(string(data), "\n", "\r\n"), strings.TrimSuffix(string(data), "\n")} {
		f, err := Parse([]byte(text), "short.yaml")
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if f.Interval != time.Second || f.TTL != lockkeeper.DefaultTTL || f.Batch != 500 || f.Database != "" || f.MaxParked != 0.05 || f.Mappings[0].Create {
			t.Errorf("%q: defaults: %+v", text, f)
		}
		if c := f.Flush(); c.Job != "j" || c.Batch != 500 || c.Interval != time.Second || c.MaxParked != 0.05 || len(c.Mappings) != 1 {
			t.Errorf("%q: Flush: %+v", text, c)
		}
	}
}

func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(data, name)
			var errs *Errors
			if !errors.As(err, &errs) || len(errs.List) == 0 {
				t.Fatalf("%v; want *Errors", err)
			}
			got := err.Error() + "\n"
			if strings.Contains(got, "secret") {
				t.Errorf("a password is told:\n%s", got)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".want"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestLargeAndDeep(t *testing.T) {
	for _, open := range []string{"[", "{a: ", "- ", "a: [", "\"", "&a "} {
		text := strings.Repeat(open, mostBytes/8/len(open)) // the parser takes the square of this
		if _, err := Parse([]byte(text), "deep.yaml"); err == nil {
			t.Errorf("many %q are accepted", open)
		}
	}
	if _, err := Parse(make([]byte, mostBytes+1), "large.yaml"); err == nil || !strings.Contains(err.Error(), "large.yaml:1:1: 65537 bytes") {
		t.Errorf("too large: %v", err)
	}
}

func TestSimilar(t *testing.T) {
	known := []string{"keys", "table", "columns", "job"}
	for word, want := range map[string]string{
		"collumns": "columns", "Table": "table", "tabel": "table", "key": "keys", "jobs": "job",
		"": "", "x": "", "abc": "", "database": "", "ob": "job",
	} {
		got := similar(word, known)
		if want == "" && got != "" || want != "" && !strings.Contains(got, `"`+want+`"`) {
			t.Errorf("similar(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestShare(t *testing.T) {
	for text, want := range map[string]float64{"5%": 0.05, "0%": 0, "100%": 1, "0.1%": 0.001, "2.5%": 0.025, "1e1%": 0.1} {
		if got, err := Share(text); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "%", "-1%", "100.1%", "NaN%", "Inf%", "5 %", "5%%", "five%"} {
		if got, err := Share(text); err == nil || got != 0 {
			t.Errorf("%q is a share of %v", text, got)
		}
	}
}

// FuzzParse: no file makes it panic; an error always has its line and column; a file
// that is accepted makes an engine.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data, "fuzz.yaml")
		if err == nil {
			if _, err := flush.New(stub{}, stub{}, file.Flush()); err != nil {
				t.Errorf("accepted, but: %v", err)
			}
			if file.Interval <= 0 || file.Batch <= 0 || file.TTL <= 0 {
				t.Errorf("accepted: %+v", file)
			}
			return
		}
		var errs *Errors
		if !errors.As(err, &errs) || len(errs.List) == 0 {
			t.Fatalf("%v; want *Errors", err)
		}
		for _, e := range errs.List {
			if e.Line < 1 || e.Column < 1 || e.Message == "" {
				t.Errorf("%+v", e)
			}
		}
	})
}
