/** The texts of a job that a search compares. */
interface SearchedTexts {
  title: string;
  jobId: string;
  tags: readonly string[];
}

/** Returns a test for jobs whose title, id or one of their tags contains the text, in upper or lower case. */
export function matchSearch(text: string): (job: SearchedTexts) => boolean {
  const searched = text.toLowerCase();
  const contains = (value: string) => value.toLowerCase().includes(searched);
  return ({ title, jobId, tags }) => contains(title) || contains(jobId) || tags.some(contains);
}
