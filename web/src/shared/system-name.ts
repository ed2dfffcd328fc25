/** The name of a system as people write it, in addresses and commands too. The API has it in capitals in `project_hpc`. */
export const systemName = ({ project_hpc }: { project_hpc: string }) => project_hpc.toLowerCase();
