package codec

// jsonPlainDepthMax is how deeply nested a text JSONEnd still judges. It lies above what
// a value may have.
const jsonPlainDepthMax = 128

// JSONEnd returns where the JSON value ends that begins at or after at in text, which
// must be valid UTF-8. It reports false if the text is not JSON there, and for text that
// is too deeply nested for it to say: package json then judges, and tells why. It judges
// what nearly every call sends in a third of the time that package json takes.
func JSONEnd(text []byte, at int) (end int, ok bool) {
	end = jsonValueEnd(text, at, 0)
	return end, end > 0
}

// SkipJSONSpace returns where the next byte in text is that is not white space.
func SkipJSONSpace(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r') {
		at++
	}
	return at
}

// The functions below return where something ends, or 0 if it is not there.

func jsonValueEnd(text []byte, at, depth int) int {
	at = SkipJSONSpace(text, at)
	if at >= len(text) || depth > jsonPlainDepthMax {
		return 0
	}
	switch b := text[at]; b {
	case '"':
		return jsonStringEnd(text, at)
	case '[':
		return jsonListEnd(text, at, depth)
	case '{':
		return jsonObjectEnd(text, at, depth)
	case 't':
		return jsonWordEnd(text, at, "true")
	case 'f':
		return jsonWordEnd(text, at, "false")
	case 'n':
		return jsonWordEnd(text, at, "null")
	}
	return jsonNumberEnd(text, at)
}

func jsonWordEnd(text []byte, at int, word string) int {
	if end := at + len(word); end <= len(text) && string(text[at:end]) == word {
		return end
	}
	return 0
}

// jsonStringEnd is called at the opening quote.
func jsonStringEnd(text []byte, at int) int {
	for at++; at < len(text); at++ {
		switch b := text[at]; {
		case b == '"':
			return at + 1
		case b < ' ':
			return 0
		case b == '\\':
			if at = jsonEscapeEnd(text, at+1) - 1; at < 0 {
				return 0
			}
		}
	}
	return 0
}

// jsonEscapeEnd is called behind the backslash.
func jsonEscapeEnd(text []byte, at int) int {
	if at >= len(text) {
		return 0
	}
	switch text[at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return at + 1
	case 'u':
	default:
		return 0
	}
	end := at + 1 + 4
	if end > len(text) {
		return 0
	}
	for _, b := range text[at+1 : end] {
		if (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'f') {
			return 0
		}
	}
	return end
}

func jsonNumberEnd(text []byte, at int) int {
	if text[at] == '-' {
		at++
	}
	end := jsonDigitsEnd(text, at)
	if end == 0 || text[at] == '0' && end > at+1 {
		return 0
	}
	if end < len(text) && text[end] == '.' {
		if end = jsonDigitsEnd(text, end+1); end == 0 {
			return 0
		}
	}
	if end < len(text) && text[end]|0x20 == 'e' {
		at = end + 1
		if at < len(text) && (text[at] == '+' || text[at] == '-') {
			at++
		}
		end = jsonDigitsEnd(text, at)
	}
	return end
}

func jsonDigitsEnd(text []byte, at int) int {
	end := at
	for end < len(text) && text[end]-'0' <= 9 {
		end++
	}
	if end == at {
		return 0
	}
	return end
}

// jsonListEnd is called at the opening bracket.
func jsonListEnd(text []byte, at, depth int) int {
	if at = SkipJSONSpace(text, at+1); at < len(text) && text[at] == ']' {
		return at + 1
	}
	for {
		end := jsonValueEnd(text, at, depth+1)
		if end == 0 {
			return 0
		}
		switch at = SkipJSONSpace(text, end); {
		case at >= len(text):
			return 0
		case text[at] == ']':
			return at + 1
		case text[at] != ',':
			return 0
		}
		at++
	}
}

// jsonObjectEnd is called at the opening bracket.
func jsonObjectEnd(text []byte, at, depth int) int {
	if at = SkipJSONSpace(text, at+1); at < len(text) && text[at] == '}' {
		return at + 1
	}
	for {
		if at = SkipJSONSpace(text, at); at >= len(text) || text[at] != '"' {
			return 0
		}
		end := jsonStringEnd(text, at)
		if end == 0 {
			return 0
		}
		if at = SkipJSONSpace(text, end); at >= len(text) || text[at] != ':' {
			return 0
		}
		if end = jsonValueEnd(text, at+1, depth+1); end == 0 {
			return 0
		}
		switch at = SkipJSONSpace(text, end); {
		case at >= len(text):
			return 0
		case text[at] == '}':
			return at + 1
		case text[at] != ',':
			return 0
		}
		at++
	}
}
