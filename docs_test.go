package lockkeeper_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// readAll returns the text of all files below the root whose name fits.
func readAll(t *testing.T, fits func(name string) bool) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if d.IsDir() || !fits(d.Name()) {
			return nil
		}
		text, err := os.ReadFile(path)
		texts[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func isTestFile(name string) bool { return strings.HasSuffix(name, "_test.go") }

var (
	namedTest = regexp.MustCompile("`((?:Test|Fuzz|Example|Benchmark)[A-Za-z0-9_]*)[`/]")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example|Benchmark)[A-Za-z0-9_]*)\(`)
)

// testsIn returns the tests of test files.
func testsIn(files map[string]string) map[string]bool {
	there := make(map[string]bool)
	for _, text := range files {
		for _, match := range testFunc.FindAllStringSubmatch(text, -1) {
			there[match[1]] = true
		}
	}
	return there
}

// missingTests returns the tests that a document names and that are not there.
func missingTests(document string, there map[string]bool) []string {
	var missing []string
	for _, match := range namedTest.FindAllStringSubmatch(document, -1) {
		if !there[match[1]] {
			missing = append(missing, match[1])
		}
	}
	return missing
}

// What a document calls shown by a test must be there, under that name.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	there := testsIn(readAll(t, isTestFile))
	for path, text := range readAll(t, func(name string) bool { return strings.HasSuffix(name, ".md") }) {
		for _, name := range missingTests(text, there) {
			t.Errorf("%s names %s, which no test file has", path, name)
		}
	}
	if got := missingTests("see `TestNoSuchThing` and `TestDocumentsNameTestsThatExist`", there); len(got) != 1 {
		t.Errorf("the check itself found %v in a document with one wrong name", got)
	}
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// squeeze makes code comparable whatever its indentation.
func squeeze(code string) string {
	var lines []string
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// uncompiled returns the Go blocks of a document that stand in no test file.
func uncompiled(document string, files map[string]string) []string {
	var out []string
	for _, match := range goBlock.FindAllStringSubmatch(document, -1) {
		block, found := squeeze(match[1]), false
		for _, text := range files {
			found = found || strings.Contains(squeeze(text), block)
		}
		if !found {
			out = append(out, match[1])
		}
	}
	return out
}

// The code in the documents is code that tests compile and run.
func TestCodeInDocumentsIsCompiled(t *testing.T) {
	files := readAll(t, isTestFile)
	for path, text := range readAll(t, func(name string) bool { return strings.HasSuffix(name, ".md") }) {
		for _, block := range uncompiled(text, files) {
			t.Errorf("%s has code that stands in no test file:\n%s", path, block)
		}
	}
	if got := uncompiled("```go\nno.Such(code)\n```\n", nil); len(got) != 1 {
		t.Error("the check itself does not see code that is nowhere")
	}
}

// Every package's example stands in its doc.go; those of packages that need a
// driver or a client are compiled where these are.
func TestPackagesHaveAnExample(t *testing.T) {
	for path, text := range readAll(t, func(name string) bool { return name == "doc.go" }) {
		dir := filepath.Dir(path)
		if strings.Contains(dir, "internal") || strings.HasPrefix(dir, "lab") {
			continue
		}
		if !strings.Contains(text, "\n//\t") {
			t.Errorf("%s has no example", path)
		}
	}
}
