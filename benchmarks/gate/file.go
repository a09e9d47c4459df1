package gate

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
)

// Read reads what Write has written.
func Read(path string) ([]Row, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []Row
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

// Write keeps every turn, in a folder that is made where it is missing.
func Write(path string, rows []Row) error {
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Print writes a table with a line for each row.
func Print(to io.Writer, judged []Judgement) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "row\tbytes\tpairs\thead to base\t%.0f %% interval\t\n", 100*Confidence)
	for _, j := range judged {
		if j.LeftOut != "" {
			fmt.Fprintf(table, "%s\t%d\t%d of %d\tnot compared: %s\n", j.Name, j.Bytes, j.Compared, j.Pairs, j.LeftOut)
			continue
		}
		verdict := ""
		if j.Worse() {
			verdict = "slower"
		}
		fmt.Fprintf(table, "%s\t%d\t%d of %d\t%+.1f %%\t%+.1f to %+.1f %%\t%s\n", j.Name, j.Bytes, j.Compared, j.Pairs,
			percent(j.Middle), percent(j.Low), percent(j.High), verdict)
	}
	return table.Flush()
}

// percent is what a ratio is away from 1.
func percent(ratio float64) float64 { return 100 * (ratio - 1) }
