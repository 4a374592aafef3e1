// Order of search results: guides, then experiments and development, then the API reference.
const GUIDES = /^(index|install|first_fit|choosing|report|priors|rates|maps|scale|sharp_bits|errors|method|tutorials\/.*)$/;

var Scorer = {
  score: ([page, , , , score]) =>
    score + (GUIDES.test(page) ? 1000 : page.startsWith("api/") ? -1000 : 0),
  // The defaults of Sphinx.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
