// Command dpkgjsonl prints the list of the Debian packages on this machine as
// JSON lines, one flat object a package. It is real data for the demo: a few
// hundred to a few thousand records with quotes, backslashes and letters beyond
// ASCII in them.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// format asks dpkg-query for the fields that parse expects, in that order. The
// summary is last, so that a tab in it would be a part of it.
const format = "${Package}\t${Architecture}\t${Version}\t${Section}\t${Priority}\t" +
	"${Installed-Size}\t${Maintainer}\t${db:Status-Abbrev}\t${binary:Summary}\n"

// fields is how many fields format has.
const fields = 9

// A pkg is one line of the output.
type pkg struct {
	ID            string `json:"id"` // name:architecture, unique on a machine
	Version       string `json:"version"`
	Architecture  string `json:"architecture"`
	Section       string `json:"section"`
	Priority      string `json:"priority"`
	InstalledSize *int64 `json:"installed_size,omitempty"` // KiB; a removed package has none
	Maintainer    string `json:"maintainer"`
	Summary       string `json:"summary"`
	Status        string `json:"status"`
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "dpkgjsonl:", err)
		os.Exit(1)
	}
}

func run(w io.Writer) error {
	var stderr bytes.Buffer
	cmd := exec.Command("dpkg-query", "-W", "-f", format)
	cmd.Stderr = &stderr
	list, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("there is no dpkg-query on this machine: the package list is only to be had on Debian and its relatives")
	}
	if err != nil {
		return fmt.Errorf("dpkg-query: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return convert(w, bytes.NewReader(list))
}

// convert turns what dpkg-query printed into JSON lines.
func convert(w io.Writer, list io.Reader) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	lines := bufio.NewScanner(list)
	for n := 1; lines.Scan(); n++ {
		p, err := parse(lines.Text())
		if err != nil {
			return fmt.Errorf("line %d of dpkg-query: %w", n, err)
		}
		if err := enc.Encode(p); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading from dpkg-query: %w", err)
	}
	return out.Flush()
}

// parse reads one line of dpkg-query in the format above. An empty field stays
// an empty string; an empty size is left out, since it is not zero.
func parse(line string) (pkg, error) {
	f := strings.SplitN(line, "\t", fields)
	if len(f) != fields {
		return pkg{}, fmt.Errorf("%d fields, want %d: %q", len(f), fields, line)
	}
	p := pkg{
		ID:           f[0] + ":" + f[1],
		Version:      f[2],
		Architecture: f[1],
		Section:      f[3],
		Priority:     f[4],
		Maintainer:   f[6],
		Summary:      f[8],
		Status:       strings.TrimSpace(f[7]),
	}
	if f[5] != "" {
		size, err := strconv.ParseInt(f[5], 10, 64)
		if err != nil {
			return pkg{}, fmt.Errorf("package %s: installed size: %w", p.ID, err)
		}
		p.InstalledSize = &size
	}
	return p, nil
}
