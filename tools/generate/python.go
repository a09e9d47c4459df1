package main

func pythonModule(list errorList) string {
	var t text
	t.line("# %s", marker("errors.json"))
	t.line("\"\"\"Status codes and outcomes: the same numbers and names in every language.\"\"\"\n")
	t.line("from __future__ import annotations\n\nimport enum\n\n__all__ = [\"Code\", \"Outcome\"]\n\n")
	pythonCodes(&t, list.Codes)
	pythonOutcomes(&t, list.Outcomes)
	return t.String()
}

func pythonCodes(t *text, codes []code) {
	t.line("class Code(enum.IntEnum):\n    \"\"\"What a call ended with.\"\"\"\n")
	for _, c := range codes {
		t.line("    %s = %d\n    \"\"\"%s\"\"\"\n", c.Name, c.Number, sentence(c.Meaning))
	}
}

func pythonOutcomes(t *text, outcomes []outcome) {
	t.line("\nclass Outcome(enum.IntEnum):\n    \"\"\"Whether the function of a failed call ran.\"\"\"\n")
	for _, o := range outcomes {
		t.line("    %s = %d\n    \"\"\"%s\"\"\"\n", o.Name, o.Number, sentence(o.Meaning))
	}
	t.line("    @property\n    def text(self) -> str:\n        \"\"\"The words for a person, as \"not executed\".\"\"\"")
	t.line("        return _OUTCOME_TEXTS[self]\n\n\n_OUTCOME_TEXTS = {")
	for _, o := range outcomes {
		t.line("    Outcome.%s: %q,", o.Name, o.Text)
	}
	t.line("}")
}
