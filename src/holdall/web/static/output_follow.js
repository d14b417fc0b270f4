// What a running output writes, as it comes, until it has ended.

const REST = 150; // ms between two questions: a writer may write all the time

export class Follow {
  // `changed(answer)` is told of every change, `ended(answer)` of the last, `failed(error)` where nothing can be asked.
  constructor(api, { changed, ended, failed }) {
    Object.assign(this, { api, changed, ended, failed });
  }

  async run(known) {
    for (;;) {
      let answer;
      try {
        answer = await this.api.ask("changes", { bytes: known });
      } catch (error) {
        this.failed(error);
        return;
      }
      known = answer.total.bytes;
      this.changed(answer);
      if (answer.state !== "running" && answer.state !== "queued") {
        this.ended(answer);
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, REST));
    }
  }
}
