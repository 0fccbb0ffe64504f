package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A report is all that a run has found.
type report struct {
	Head       head     `json:"head"`
	Tables     []*table `json:"tables"`
	Targets    []target `json:"targets"`
	Violations int64    `json:"violations"`
	Failed     int      `json:"failed"` // cells
}

// sum fills in what is over all tables.
func (r *report) sum() {
	var others []float64
	for _, t := range r.Tables {
		for _, row := range t.Rows {
			r.Violations += row.Violations
			for _, s := range row.Samples {
				others = append(others, s.Others)
				if s.Error != "" {
					r.Failed++
				}
			}
		}
	}
	if len(others) > 0 {
		r.Head.OthersMedian, r.Head.OthersWorst = median(others), slices.Max(others)
	}
	r.Targets = targets(r.Tables)
}

// markdown writes the report for people.
func (r *report) markdown(w io.Writer) error {
	var b strings.Builder
	r.Head.markdown(&b)
	b.WriteString("## Systems\n\n| System | Setting |\n|---|---|\n")
	for _, sys := range systems() {
		if slices.ContainsFunc(r.Tables, func(t *table) bool { return t.row(sys.name) != nil }) {
			fmt.Fprintf(&b, "| %s | %s |\n", sys.name, sys.setting)
		}
	}
	b.WriteString("\n" + howToRead + "\n")
	for _, t := range r.Tables {
		t.markdown(&b)
	}
	targetsMarkdown(&b, r.Targets)
	fmt.Fprintf(&b, "\nViolations of mutual exclusion: %d. Cells that failed: %d.\n", r.Violations, r.Failed)
	_, err := io.WriteString(w, b.String())
	return err
}

const howToRead = `Each cell has a redis-server and client processes of its own. The systems take turns; the figures are medians of the
repetitions, and min–max is of the first column. Compare within one run: a busy machine shows other microseconds than an idle one.
Requests are commands on the wire, those inside of scripts not counted. "× raw" compares the first column with that of the raw
commands with the same client: in S1 and S1try in turns, cycle by cycle, elsewhere in the same repetition. The raw loops renew
nothing. Stuck is a call on a free lock that took over 0.5 s (S5: 2 s) and was cancelled. Violations are entries into a section
that somebody else was in, lost updates of what the lock protects, locks that another client got while their holder believed in
them, and, for Lockkeeper, contexts that had not ended when they were asked after a pause.
`

func (h head) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "# Lockkeeper beside other locks on Redis\n\n")
	fmt.Fprintf(b, "* %s, took %s: `%s`\n", h.Date, h.Took, h.Command)
	fmt.Fprintf(b, "* %d CPUs, %s; %s; %s; redis-server %s\n", h.CPUs, h.CPU, h.Kernel, h.Go, h.Redis)
	var libraries []string
	for _, module := range measured() {
		libraries = append(libraries, strings.TrimPrefix(module, "github.com/")+" "+cmp.Or(h.Versions[module], "of unknown version"))
	}
	fmt.Fprintf(b, "* %s\n", strings.Join(libraries, ", "))
	fmt.Fprintf(b, "* Other programs used %.0f %% of the cores in the median cell, %.0f %% in the worst.\n\n", h.OthersMedian, h.OthersWorst)
}

func (t *table) markdown(b *strings.Builder) {
	columns := t.Columns
	if slices.ContainsFunc(t.Rows, func(r *row) bool { _, ok := r.Medians[ratioKey]; return ok }) {
		columns = append(slices.Clone(columns), column{ratioKey, "× raw", 2})
	}
	repeated := slices.ContainsFunc(t.Rows, func(r *row) bool { return len(r.Samples) > 1 })
	titles := []string{"System"}
	for _, c := range columns {
		titles = append(titles, c.Title)
	}
	if repeated {
		titles = append(titles, "min–max")
	}
	titles = append(titles, "violations")
	fmt.Fprintf(b, "## %s: %s\n\n| %s |\n|---|%s\n", t.Name, t.Title, strings.Join(titles, " | "), strings.Repeat("---:|", len(titles)-1))
	for _, r := range t.Rows {
		cells := []string{r.System}
		for _, c := range columns {
			cells = append(cells, figure(r.Medians, c))
		}
		if repeated {
			cells = append(cells, r.spread(t.mainColumn()))
		}
		cells = append(cells, strconv.FormatInt(r.Violations, 10))
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
	b.WriteString(t.remarks())
}

func (t *table) mainColumn() column {
	i := slices.IndexFunc(t.Columns, func(c column) bool { return c.Key == t.Main })
	return t.Columns[i]
}

func (r *row) spread(c column) string {
	if _, ok := r.Medians[c.Key]; !ok {
		return "–"
	}
	return number(r.Min, c.digits) + "–" + number(r.Max, c.digits)
}

// figure returns one value of a table, or a dash.
func figure(values map[string]float64, c column) string {
	value, ok := values[c.Key]
	if !ok {
		return "–"
	}
	return number(value, c.digits)
}

// number groups the thousands of large numbers, so that they can be read.
func number(value float64, digits int) string {
	text := strconv.FormatFloat(value, 'f', digits, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	return sign + whole + fraction
}

// remarks are what does not fit into figures.
func (t *table) remarks() string {
	var b strings.Builder
	var others []float64
	var remarks []string
	for _, r := range t.Rows {
		for _, s := range r.Samples {
			others = append(others, s.Others)
			for _, text := range s.Notes {
				remarks = append(remarks, fmt.Sprintf("* %s: %s\n", r.System, text))
			}
			if s.Error != "" {
				remarks = append(remarks, fmt.Sprintf("* %s FAILED: %s\n", r.System, s.Error))
			}
		}
	}
	b.WriteString("\n")
	seen := map[string]bool{}
	for _, text := range remarks {
		if !seen[text] {
			seen[text] = true
			b.WriteString(strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "; ") + "\n")
		}
	}
	if len(remarks) > 0 {
		b.WriteString("\n")
	}
	if len(others) > 0 {
		fmt.Fprintf(&b, "Other programs used %.0f %% of the cores in the median cell, %.0f %% in the worst.\n\n", median(others), slices.Max(others))
	}
	return b.String()
}
